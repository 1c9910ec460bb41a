package installplan

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// verify checks that the objects that existed before this run still exist if this run wrote any object: for example, the
// garbage collector may have been about to delete them. If the cache contains the object that was written, verify uses the
// cache; otherwise, it reads the object from the API server. A missing object makes this run fail, and the next run creates it
// again. Objects that this run created are not read again, because the API server has just confirmed that they exist.
func verify(ctx context.Context, s *run) (outcome, error) {
	if !s.wrote {
		return proceed(), nil
	}
	var unseen []step.Step
	for i, st := range s.steps {
		if s.done[i].existed && !s.cached(ctx, st, s.done[i].Live) {
			unseen = append(unseen, st)
		}
	}
	states, err := s.executor.Gather(ctx, unseen)
	if err != nil {
		return outcome{}, err
	}
	for _, state := range states {
		if state.Problem != nil {
			return outcome{}, state.Problem
		}
		if state.Live == nil {
			return outcome{}, fmt.Errorf("%s was deleted after it was created", apply.Describe(state.Step.Object))
		}
	}
	return proceed(), nil
}

// cached reports whether the cache contains the object that a step wrote. It returns false for kinds that this program
// does not already watch, because no informer is started for the kinds in a plan.
func (s *run) cached(ctx context.Context, st step.Step, live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	obj, err := s.seen(ctx, st)
	return err == nil && obj != nil && obj.GetUID() == live.GetUID() && obj.GetDeletionTimestamp() == nil
}

// seen returns a step's object from the cache, or nil for kinds that are not watched. It reads RBAC through the
// listers, which detect whether RBAC is watched.
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
	default:
		return s.reconciler.RBAC.Object(st.Object.GetKind(), key.Namespace, key.Name)
	}
	return obj, s.reconciler.Client.Get(ctx, key, obj)
}
