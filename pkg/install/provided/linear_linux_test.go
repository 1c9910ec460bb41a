package provided

import (
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/cputime"
	"github.com/remit-olm/remit/test/env/proofs"
)

func owning(namespace string, n int) *operatorsv1alpha1.ClusterServiceVersion {
	csv := csvIn(namespace, "things.example.com")
	for i := range n - 1 {
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned,
			operatorsv1alpha1.CRDDescription{Name: fmt.Sprintf("a%d.example.com", i), Version: "v1", Kind: fmt.Sprint("A", i)})
	}
	return csv
}

// A tenant chooses the number of APIs of two operators that serve the same namespace.
func TestManyAPIsTakeLinearTime(t *testing.T) {
	require.NoError(t, cputime.CheckLinear(bundle.MaxOwned/4, func(n int) func() {
		s := newScene(t)
		s.mine, s.theirs = owning("mine", n), owning("theirs", n)
		claimOf := func(csv *operatorsv1alpha1.ClusterServiceVersion) claim {
			out := claim{csv: csv, shared: s.targets}
			out.apis, out.resources = namesOf(csv)
			return out
		}
		mine, theirs := claimOf(s.mine), claimOf(s.theirs)
		s.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}})
		c := Conflicts{Reader: s.Cached("self"), RBAC: s.RBAC(), Groups: scoped.Default{}.Lookup(s.Cached("self")), Filter: filter{s.RBAC()}, Proofs: proofs.Keys()}
		apis := Of(s.mine)
		require.Len(t, apis, n)
		return func() {
			d := &dispute{Conflicts: c, own: []claim{mine}, apis: apis, targets: s.targets}
			found, err := d.excludes(t.Context(), theirs)
			require.NoError(t, err)
			require.False(t, found)
		}
	}))
}

func TestOmitsAPIsOfAVersionWithTooMany(t *testing.T) {
	csv := owning("mine", bundle.MaxOwned+10)
	require.Len(t, Of(csv), bundle.MaxOwned)
	for i := range bundle.MaxOwned + 10 {
		csv.Spec.APIServiceDefinitions.Owned = append(csv.Spec.APIServiceDefinitions.Owned, operatorsv1alpha1.APIServiceDescription{Name: "a", Kind: fmt.Sprint("Served", i), Version: "v1", Group: "g"})
	}
	require.Len(t, Of(csv), 2*bundle.MaxOwned)
}
