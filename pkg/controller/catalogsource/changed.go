package catalogsource

import (
	"context"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Changed has those pulls that failed tried again at once which may come out differently after a change: of RBAC
// that the reading of their pull secrets rested on, of the ServiceAccount that names pull secrets, of the namespace's
// OperatorGroup, or of its account. before is nil for a new object, after for one that is gone. It costs nothing
// where nothing has failed.
func (r *Reconciler) Changed(ctx context.Context, before, after client.Object) {
	for _, pull := range r.interests.Concerned(before, after) {
		pull.ask()
	}
	for _, key := range r.follows.interests.Concerned(before, after) {
		r.follows.again(func(other types.NamespacedName) bool { return other == key })
	}
	obj := after
	if obj == nil {
		obj = before
	}
	switch obj.(type) {
	case *operatorsv1.OperatorGroup:
		was, _ := before.(*operatorsv1.OperatorGroup)
		is, _ := after.(*operatorsv1.OperatorGroup)
		if was == nil || is == nil || was.Spec.ServiceAccountName != is.Spec.ServiceAccountName {
			r.again(ofNamespace(obj.GetNamespace()))
		}
	case *corev1.ServiceAccount:
		was, _ := before.(*corev1.ServiceAccount)
		is, _ := after.(*corev1.ServiceAccount)
		if !equality.Semantic.DeepEqual(pullSecretsOf(was), pullSecretsOf(is)) {
			r.again(func(key types.NamespacedName) bool { return key == client.ObjectKeyFromObject(obj) })
		}
		groups, err := scoped.Lookup{Reader: r.Client, Default: r.Default}.Concerned(ctx, before, after)
		if err != nil {
			return // the cache is not there yet: nothing has failed
		}
		for i := range groups {
			r.again(ofNamespace(groups[i].Namespace))
		}
	}
}

func ofNamespace(namespace string) func(types.NamespacedName) bool {
	return func(key types.NamespacedName) bool { return key.Namespace == namespace }
}

func pullSecretsOf(sa *corev1.ServiceAccount) []corev1.LocalObjectReference {
	if sa == nil {
		return nil
	}
	return sa.ImagePullSecrets
}

// again has the pulls of CatalogSources tried again, and ConfigMaps that are not watched.
func (r *Reconciler) again(match func(types.NamespacedName) bool) {
	r.follows.again(match)
	for _, pull := range slices.Concat(r.images.pullsOf(match), r.bundles.pullsOf(match)) {
		pull.ask()
	}
}

func (i *images) pullsOf(match func(types.NamespacedName) bool) []retry {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []retry
	for key, e := range i.byKey {
		if match(key) {
			out = append(out, e.retry)
		}
	}
	return out
}

func (b *bundles) pullsOf(match func(types.NamespacedName) bool) []retry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []retry
	for of, u := range b.byImage {
		if match(of.catalog) {
			out = append(out, u.retry)
		}
	}
	return out
}
