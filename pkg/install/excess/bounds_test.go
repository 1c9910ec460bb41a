package excess

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// listersOf returns listers of roles and bindings.
func listersOf(t *testing.T, objs ...client.Object) rbac.Listers {
	t.Helper()
	stores := map[string]cache.Indexer{}
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		stores[kind] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	for _, obj := range objs {
		kind := fmt.Sprintf("%T", obj)[len("*v1."):]
		require.NoError(t, stores[kind].Add(obj))
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(stores["Role"]), RoleBindings: rbacv1listers.NewRoleBindingLister(stores["RoleBinding"]),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(stores["ClusterRole"]), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(stores["ClusterRoleBinding"]),
	}
}

// signed are proofs of objects with a label.
type signed struct{}

func (signed) Sign(*unstructured.Unstructured, string, *unstructured.Unstructured) error { return nil }

func (signed) Check(obj client.Object, holder string) error {
	if obj.GetAnnotations()["proof"] != holder {
		return errors.New("no proof")
	}
	return nil
}

func (s signed) CheckSince(obj client.Object, holder string, _ time.Time) error {
	return s.Check(obj, holder)
}

// A permission does not justify itself: the account has it only through a binding that Remit has created.
func TestBindingsOfRemitDoNotJustifyThemselves(t *testing.T) {
	t.Parallel()
	account := rbac.ServiceAccount("ns", "acct")
	pods := may("get", "pods")
	bound := func(name string, proven bool) []client.Object {
		objs := granted(t, "ns", name, pods)
		binding, ok := objs[1].(*rbacv1.RoleBinding)
		require.True(t, ok)
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "acct"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "operator"}}
		if proven {
			binding.Labels[names.LabelLineage], binding.Annotations = "mark", map[string]string{"proof": "mark"}
		}
		return objs
	}
	for name, row := range map[string]struct {
		cluster   []client.Object
		confirmed int
		found     int
	}{
		"only Remit's binding":                          {cluster: bound("x", true), found: 2, confirmed: 2},
		"two of Remit's bindings":                       {cluster: append(bound("x", true), bound("y", true)...), found: 2, confirmed: 2},
		"another binding":                               {cluster: append(bound("x", true), bound("admin", false)...)},
		"a binding that only looks like one of Remit's": {cluster: append(bound("x", true), lookalike(t, bound("y", false))...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listers := listersOf(t, row.cluster...)
			bounds := NewBounds(listers, listers.RulesOf, signed{}, account)
			found, err := bounds.Find(row.cluster[:2])
			require.NoError(t, err)
			require.Len(t, found, row.found)
			ask := func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
				return atom.Resources[0] == "pods", nil // the API server counts every binding
			}
			confirmed, _, err := bounds.Confirm(t.Context(), ask, found)
			require.NoError(t, err)
			require.Len(t, confirmed, row.confirmed)
		})
	}
}

// The ClusterRoles for an operator's APIs have no bindings: admin, edit and view include them.
func TestAggregatedClusterRolesExceedTheAccount(t *testing.T) {
	t.Parallel()
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{may("get", "widgets")}}
	role.Name, role.Labels = "widgets-v1-view", map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
	for want, rules := range map[int][]rbacv1.PolicyRule{1: nil, 0: role.Rules} {
		account := Account{Granted: func(ns string) rbac.Permissions { return rbac.Permissions{Namespace: ns, Rules: rules} }}
		found, err := account.Find([]client.Object{role})
		require.NoError(t, err)
		require.Len(t, found, want)
	}
	role.Labels = nil
	found, err := Account{Granted: func(ns string) rbac.Permissions { return rbac.Permissions{Namespace: ns} }}.Find([]client.Object{role})
	require.NoError(t, err)
	require.Empty(t, found, "without a binding, a ClusterRole grants nothing")
}

// lookalike adds the label of a lineage, but no proof.
func lookalike(t *testing.T, objs []client.Object) []client.Object {
	t.Helper()
	objs[1].GetLabels()[names.LabelLineage] = "mark"
	return objs
}

// Another authorizer may allow what RBAC does not, so that everything has to be asked. A user may also add roles to the account until
// Remit does not read them any more: then questions that are left do not count as allowed.
func TestManyRolesOfTheAccountDoNotKeepAnExcess(t *testing.T) {
	t.Parallel()
	rule := may("get", "configmaps")
	for i := range 2 * maxReviews {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("c", i))
	}
	found := Object{Object: &rbacv1.Role{}, Scope: "ns", Missing: []rbacv1.PolicyRule{rule}, Alternative: may("escalate", "roles")}
	ask := func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
		return atom.Resources[0] == "configmaps", nil
	}
	for name, row := range map[string]struct {
		errs    []error
		notKept []string
		want    int
	}{
		"RBAC is read":                 {},
		"a lookup has failed":          {errs: []error{errors.New("no lookup")}},
		"more than Remit reads":        {errs: []error{&rbac.LimitError{}}, want: 1},
		"rules of others that add any": {notKept: []string{"admin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := Account{Granted: func(ns string) rbac.Permissions {
				return rbac.Permissions{Namespace: ns, ReadErrors: row.errs, NotKept: row.notKept}
			}}
			confirmed, isComplete, err := account.Confirm(t.Context(), ask, rbac.Subject{}, []Object{found})
			require.NoError(t, err)
			require.Len(t, confirmed, row.want)
			require.Equal(t, row.want == 1, isComplete, "another attempt asks other questions")
		})
	}
}
