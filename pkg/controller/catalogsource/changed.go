package catalogsource

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Changed immediately retries failed pulls, and wakes CatalogSources whose ConfigMaps are not watched or were watched as
// another account, if they depend on the changed object: RBAC, the ServiceAccount that names pull secrets, the namespace's OperatorGroup, or the account
// that the OperatorGroup names. before is nil if the object is new, and after is nil if it was deleted.
func (r *Reconciler) Changed(ctx context.Context, before, after client.Object) {
	for _, pull := range r.pulls.interests.Concerned(before, after) {
		pull.Ask()
	}
	if concerned := sets.New(r.follows.interests.Concerned(before, after)...); len(concerned) > 0 {
		r.follows.wakeUnwatched(func(key types.NamespacedName) bool { return concerned.Has(key) })
	}
	obj := kit.Latest(before, after)
	switch obj.(type) {
	case *operatorsv1.OperatorGroup:
		old, _ := before.(*operatorsv1.OperatorGroup)
		current, _ := after.(*operatorsv1.OperatorGroup)
		if old == nil || current == nil || old.Spec.ServiceAccountName != current.Spec.ServiceAccountName {
			r.accountChanged(ctx, obj.GetNamespace())
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
		groups = scoped.OnePerNamespace(groups)
		for i := range groups {
			r.accountChanged(ctx, groups[i].Namespace)
		}
	}
}

// accountChanged retries pulls and wakes CatalogSources that depend on the account of a namespace.
func (r *Reconciler) accountChanged(ctx context.Context, namespace string) {
	r.follows.unwatch(inNamespace(namespace))
	r.retryPulls(inNamespace(namespace))
	if r.Default.Account.Name == "" {
		return // no registry runs in this namespace
	}
	for _, req := range r.all(ctx, namespace) {
		r.waker.Wake(req.NamespacedName)
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
