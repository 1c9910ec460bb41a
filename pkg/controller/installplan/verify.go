package installplan

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/flow"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// verify looks at every object again where this run wrote any: other controllers may have taken away
// what was just made. The cache is believed where it shows the very object; the others are asked for. What is
// gone fails this run, so that another makes it again, and so on until a look finds all in place.
func verify(ctx context.Context, s *run) (flow.Outcome, error) {
	if !s.wrote {
		return flow.Next(), nil
	}
	var unseen []step.Step
	for i, st := range s.steps {
		if !s.cached(ctx, st, s.done[i]) {
			unseen = append(unseen, st)
		}
	}
	states, err := s.executor.Gather(ctx, unseen)
	if err != nil {
		return flow.Outcome{}, err
	}
	for _, state := range states {
		if state.Problem != nil {
			return flow.Outcome{}, state.Problem
		}
		if state.Live == nil {
			return flow.Outcome{}, fmt.Errorf("%s was created and is gone again", apply.Describe(state.Step.Object))
		}
	}
	return flow.Next(), nil
}

// cached says whether the cache has the object that a step has made. It knows the kinds that this program
// watches for other reasons; no informer is started for those of a plan.
func (s *run) cached(ctx context.Context, st step.Step, done execute.Done) bool {
	if done.Live == nil {
		return false
	}
	obj, err := s.seen(ctx, st)
	return err == nil && obj != nil && obj.GetUID() == done.Live.GetUID() && obj.GetDeletionTimestamp() == nil
}

// seen is a step's object in the cache; nil for kinds that are not watched. RBAC is read by the listers, which
// know whether it is.
func (s *run) seen(ctx context.Context, st step.Step) (client.Object, error) {
	key := client.ObjectKeyFromObject(st.Object)
	var obj client.Object
	switch st.Object.GetKind() {
	case operatorsv1alpha1.ClusterServiceVersionKind:
		obj = &operatorsv1alpha1.ClusterServiceVersion{}
	case "CustomResourceDefinition":
		obj = &apiextensionsv1.CustomResourceDefinition{}
	case "ServiceAccount":
		obj = &corev1.ServiceAccount{}
	case "Role":
		return s.reconciler.RBAC.Roles.Roles(key.Namespace).Get(key.Name)
	case "RoleBinding":
		return s.reconciler.RBAC.RoleBindings.RoleBindings(key.Namespace).Get(key.Name)
	case "ClusterRole":
		return s.reconciler.RBAC.ClusterRoles.Get(key.Name)
	case "ClusterRoleBinding":
		return s.reconciler.RBAC.ClusterRoleBindings.Get(key.Name)
	default:
		return nil, nil
	}
	return obj, s.reconciler.Client.Get(ctx, key, obj)
}
