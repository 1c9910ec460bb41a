package preflight

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The tenant decides about which of its webhooks the API server cannot answer.
func TestAWebhookThatIsUndecidedDoesNotProtectOthers(t *testing.T) {
	t.Parallel()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a}
webhooks:
- {name: a.example.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [nodes], operations: [UPDATE], scope: Cluster}]}
- {name: b.example.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [persistentvolumes], operations: [UPDATE], scope: Cluster}]}
`), &obj.Object))
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	in := Interceptions{Identities: []scoped.Identity{bounded}, RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}}
	undecided := map[string]bool{"nodes": true}
	in.Confirmer = &Confirmer{Ask: func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
		if undecided[atom.Resources[0]] {
			return false, errors.New("no answer")
		}
		return false, nil
	}}
	cuts, err := in.Cut(t.Context(), obj.DeepCopy())
	require.NoError(t, err)
	require.Len(t, cuts, 1)
	require.Contains(t, cuts[0].String(), "b.example.com")
	undecided["persistentvolumes"] = true
	in.Confirmer = &Confirmer{Ask: in.Confirmer.Ask}
	cuts, err = in.Cut(t.Context(), obj.DeepCopy())
	require.ErrorContains(t, err, "no answer")
	require.Empty(t, cuts)
}

func TestUndecidedInterceptionsAreExplained(t *testing.T) {
	t.Parallel()
	about := func(unenforced bool) string {
		return string(Report{Identity: bounded, Unknown: []Finding{{Cause: "a", Why: "b", Unenforced: unenforced}}}.Undecided())
	}
	require.Contains(t, about(true), "each write. What a webhook intercepts must be known before, because the API server does not decide on that.\n- a: b")
	require.NotContains(t, about(false), "webhook")
}

// Otherwise, an install with more than MaxReviews other questions would wait for ever.
func TestInterceptionsAreAskedAboutFirst(t *testing.T) {
	t.Parallel()
	r := Report{Identity: bounded}
	for i := range 2 * MaxReviews {
		r.Findings = append(r.Findings, Finding{Missing: []rbacv1.PolicyRule{may("get", "", fmt.Sprint("r", i))}})
	}
	r.Findings = append(r.Findings, Finding{Unenforced: true, Missing: []rbacv1.PolicyRule{may("get", "", "last")}})
	questions, _, isComplete := questionsOf(r)
	require.False(t, isComplete)
	require.Len(t, questions, MaxReviews)
	require.Equal(t, []string{"last"}, questions[0].atom.Resources)
}
