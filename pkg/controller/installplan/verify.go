package installplan

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	obj := watched(st)
	if obj == nil || done.Live == nil {
		return false
	}
	err := s.reconciler.Client.Get(ctx, client.ObjectKeyFromObject(st.Object), obj)
	return err == nil && obj.GetUID() == done.Live.GetUID() && obj.GetDeletionTimestamp() == nil
}

func watched(st step.Step) client.Object {
	switch st.Object.GetKind() {
	case operatorsv1alpha1.ClusterServiceVersionKind:
		return &operatorsv1alpha1.ClusterServiceVersion{}
	case "CustomResourceDefinition":
		return &apiextensionsv1.CustomResourceDefinition{}
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "Role":
		return &rbacv1.Role{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	case "ClusterRole":
		return &rbacv1.ClusterRole{}
	case "ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	}
	return nil
}
