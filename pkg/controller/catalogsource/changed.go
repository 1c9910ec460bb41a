package catalogsource

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// Changed handles a change that may unblock failed pulls, or CatalogSources whose ConfigMaps are not watched: it
// immediately retries these pulls and wakes these CatalogSources. Relevant changes are those to the RBAC that they
// depend on, to the ServiceAccount that names pull secrets, to the namespace's OperatorGroup, and to the account that
// the OperatorGroup names. before is nil for a new object, and after is nil for a deleted one.
func (r *Reconciler) Changed(ctx context.Context, before, after client.Object) {
	for _, pull := range r.pulls.interests.Concerned(before, after) {
		pull.Ask()
	}
	for _, key := range r.follows.interests.Concerned(before, after) {
		r.follows.wakeUnwatched(func(other types.NamespacedName) bool { return other == key })
	}
	obj := kit.Latest(before, after)
	switch obj.(type) {
	case *operatorsv1.OperatorGroup:
		old, _ := before.(*operatorsv1.OperatorGroup)
		current, _ := after.(*operatorsv1.OperatorGroup)
		if old == nil || current == nil || old.Spec.ServiceAccountName != current.Spec.ServiceAccountName {
			r.retryPulls(inNamespace(obj.GetNamespace()))
		}
	case *corev1.ServiceAccount:
		old, _ := before.(*corev1.ServiceAccount)
		current, _ := after.(*corev1.ServiceAccount)
		if !equality.Semantic.DeepEqual(pullSecretsOf(old), pullSecretsOf(current)) {
			r.retryPulls(func(key types.NamespacedName) bool { return key == client.ObjectKeyFromObject(obj) })
		}
		groups, err := r.Default.Lookup(r.Client).Concerned(ctx, before, after)
		if err != nil {
			return // the cache is not synced yet, so no pull has failed
		}
		for i := range groups {
			r.retryPulls(inNamespace(groups[i].Namespace))
		}
	}
}

func inNamespace(namespace string) func(types.NamespacedName) bool {
	return func(key types.NamespacedName) bool { return key.Namespace == namespace }
}

func pullSecretsOf(sa *corev1.ServiceAccount) []corev1.LocalObjectReference {
	if sa == nil {
		return nil
	}
	return sa.ImagePullSecrets
}

// retryPulls retries the pulls of matching CatalogSources, and wakes those whose ConfigMaps are not watched.
func (r *Reconciler) retryPulls(match func(types.NamespacedName) bool) {
	r.follows.wakeUnwatched(match)
	r.pulls.retry(match)
}
