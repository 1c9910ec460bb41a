package excess

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// A stranger has added rules to the ClusterRoles view, edit and admin. The account is bound to admin; the operator has a Role, and is
// bound to view. Nothing of this is removed, and what the account does not have still is.
func TestRulesThatStrangersAddToTheAccountsClusterRolesRemoveNothing(t *testing.T) {
	t.Parallel()
	acct := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "acct"}
	defaults := func(rules []rbacv1.PolicyRule) []client.Object {
		var out []client.Object
		for name, into := range map[string]string{"view": "edit", "edit": "admin", "admin": "none"} {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rbac.AggregateTo + into: "true"}}, Rules: rules}
			role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{rbac.AggregateTo + name: "true"}}}}
			out = append(out, role)
		}
		return out
	}
	var many []rbacv1.PolicyRule
	for i := range rbac.MaxRoleRules + 1 {
		many = append(many, may("get", fmt.Sprint("pods", i)))
	}
	binding := func(name, role string, subject rbacv1.Subject) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: role}}
	}
	own := granted(t, "ns", "x", may("get", "configmaps"), may("get", "secrets"))
	view := binding("operator-view", "view", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "operator"})
	for name, row := range map[string]struct {
		bound  []client.Object // the account's
		denied string
		want   []string
	}{
		"the account is bound to admin":                   {bound: []client.Object{binding("a", "admin", acct)}},
		"the account is bound to admin, but lacks a rule": {bound: []client.Object{binding("a", "admin", acct)}, denied: "secrets", want: []string{"RoleBinding ns/x", "Role ns/x"}},
		"the account is not bound":                        {denied: "*", want: []string{"RoleBinding ns/operator-view", "RoleBinding ns/x", "Role ns/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cached := listersOf(t, append(append(defaults(rbac.KeptRules(many)), own...), row.bound...)...)
			live := listersOf(t, append(defaults(many), own...)...)
			bounds := NewBounds(cached, live.RulesOf, signed{}, rbac.ServiceAccount("ns", "acct"))
			found, err := bounds.Find(append([]client.Object{view}, own...))
			require.NoError(t, err)
			ask := func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
				return atom.APIGroups[0] == "" && row.denied != "*" && atom.Resources[0] != row.denied, nil
			}
			confirmed, _, err := bounds.Confirm(t.Context(), ask, found)
			require.NoError(t, err)
			require.ElementsMatch(t, row.want, Names(confirmed))
		})
	}
}

// The account has a permission through a binding of Remit, and perhaps also through a ClusterRole whose rules are not kept. The API server
// knows whether the ClusterRole grants it. Rules that are added to the ClusterRole must neither remove the permission nor justify it.
func TestAPermissionOfUnknownOriginIsReadFromTheAPIServer(t *testing.T) {
	t.Parallel()
	pods := may("get", "pods")
	missing, failed := apierrors.NewNotFound(rbacv1.Resource("clusterroles"), "admin"), errors.New("no answer")
	var many []string
	for i := range maxOmitted {
		many = append(many, fmt.Sprint("a", i))
	}
	many = append(many, "admin")
	for name, row := range map[string]struct {
		// notKept are the account's ClusterRoles without those that Remit has bound, and bound are all.
		notKept []string
		bound   *rbac.Permissions
		// everywhere is true if the account has the permission in the whole cluster.
		everywhere bool
		rules      []rbacv1.PolicyRule
		err        error
		denied     bool
	}{
		"the ClusterRole grants it":                                 {notKept: []string{"admin"}, rules: []rbacv1.PolicyRule{may("list", "nodes"), may("*", "pods")}},
		"it does not grant it":                                      {notKept: []string{"admin"}, rules: []rbacv1.PolicyRule{may("list", "pods")}, denied: true},
		"it was deleted":                                            {notKept: []string{"admin"}, err: missing, denied: true},
		"it cannot be read":                                         {notKept: []string{"admin"}, err: failed},
		"it is one of too many":                                     {notKept: many, rules: []rbacv1.PolicyRule{may("*", "pods")}, denied: true},
		"it is one that Remit has bound":                            {bound: &rbac.Permissions{NotKept: []string{"admin"}}, rules: []rbacv1.PolicyRule{may("*", "pods")}, denied: true},
		"another authorizer allows it":                              {bound: &rbac.Permissions{NotKept: []string{"admin"}}, rules: []rbacv1.PolicyRule{may("list", "pods")}},
		"only another authorizer allows it":                         {bound: &rbac.Permissions{}},
		"RBAC cannot be read":                                       {bound: &rbac.Permissions{ReadErrors: []error{failed}}, err: failed},
		"there are too many Roles, and it has it everywhere":        {bound: &rbac.Permissions{ReadErrors: []error{&rbac.LimitError{}}}, everywhere: true},
		"it is one that Remit has bound, after too many of its own": {notKept: many[:maxOmitted], bound: &rbac.Permissions{NotKept: many}, rules: []rbacv1.PolicyRule{may("*", "pods")}, denied: true},
		"Remit has bound too many":                                  {bound: &rbac.Permissions{NotKept: many}, denied: true},
		"there are too many Roles":                                  {bound: &rbac.Permissions{ReadErrors: []error{&rbac.LimitError{}}}, denied: true},
		"there are too many in a target":                            {bound: &rbac.Permissions{Partial: true}, denied: true},
		"there are too many Roles, and the ClusterRole grants it":   {notKept: []string{"admin"}, bound: &rbac.Permissions{Partial: true}, rules: []rbacv1.PolicyRule{may("*", "pods")}},
		"there is no ClusterRole of this kind":                      {rules: []rbacv1.PolicyRule{may("*", "pods")}, denied: true},
	} {
		account := Account{
			Granted: func(ns string) rbac.Permissions {
				if ns == rbac.ClusterScope && row.everywhere {
					return rbac.Permissions{Rules: []rbacv1.PolicyRule{pods}}
				}
				return rbac.Permissions{Namespace: ns, NotKept: row.notKept}
			},
			Held: func(ns string) rbac.Permissions {
				if row.bound != nil {
					return *row.bound
				}
				return rbac.Permissions{Namespace: ns, Rules: []rbacv1.PolicyRule{pods}}
			},
			RulesOf: func(ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
				if ref.Name != "admin" {
					return nil, nil
				}
				return row.rules, row.err
			},
		}
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", Labels: map[string]string{names.LabelPermissionsHash: "x"}}}
		confirmed, _, err := account.Confirm(t.Context(), func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
			return atom.Resources[0] == "pods", nil
		}, rbac.Subject{}, []Object{{Object: role, Scope: "ns", Missing: []rbacv1.PolicyRule{pods}, Alternative: may("escalate", "roles")}})
		if row.err != nil && !row.denied {
			require.ErrorIs(t, err, row.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, row.denied, len(confirmed) > 0, name)
	}
}

// grants returns what grants a rule in a namespace, and does not fit into a ClusterRole that is kept.
func grants(rule rbacv1.PolicyRule) Object {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: rule.Resources[0]}}
	return Object{Object: role, Scope: "ns", Missing: []rbacv1.PolicyRule{rule}, Alternative: may("escalate", "roles")}
}

func named(n int) rbacv1.PolicyRule {
	rule := may("get", "configmaps")
	for i := range n {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint(i))
	}
	return rule
}

// The account has a ClusterRole whose rules are not kept. Nothing is removed because there are too many permissions to examine.
func TestPermissionsThatAreNotExaminedRemoveNothing(t *testing.T) {
	t.Parallel()
	has := func(string) rbac.Permissions { return rbac.Permissions{NotKept: []string{"admin"}} }
	held := func(string) rbac.Permissions {
		return rbac.Permissions{NotKept: []string{"admin"}, Rules: []rbacv1.PolicyRule{may("get", "configmaps"), may("get", "pods")}}
	}
	account := Account{Granted: has, Held: held, RulesOf: func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) {
		return []rbacv1.PolicyRule{may("get", "configmaps"), may("get", "pods")}, nil
	}}
	objs := []Object{grants(named(maxExamined + 1)), grants(may("get", "pods"))}
	confirmed, _, err := account.Confirm(t.Context(), func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
		return atom.Resources[0] != "roles", nil
	}, rbac.Subject{}, objs)
	require.NoError(t, err)
	require.Empty(t, confirmed)
	c := confirmation{objs: objs}
	require.Less(t, len(c.atomsIn("ns")), maxExamined)
	require.Contains(t, c.atomsIn("ns"), may("get", "pods"))
}

// What the account has through a ClusterRole whose rules are not kept does not use up the questions about an excess.
func TestPermissionsOfTheAccountAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	has := func(string) rbac.Permissions { return rbac.Permissions{NotKept: []string{"view"}} }
	account := Account{Granted: has, Held: has, RulesOf: func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) {
		return []rbacv1.PolicyRule{may("get", "configmaps")}, nil
	}}
	asked := 0
	confirmed, _, err := account.Confirm(t.Context(), func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
		asked++
		return false, nil
	}, rbac.Subject{}, []Object{grants(named(2 * maxReviews)), grants(may("get", "secrets"))})
	require.NoError(t, err)
	require.Equal(t, []string{"Role ns/secrets"}, Names(confirmed))
	require.Equal(t, 2, asked)
}

// What a ClusterRole that is not kept grants is examined for some permissions of each object. A permission that the API server denies is an
// excess, also if it follows those.
func TestADeniedPermissionIsFoundAfterOthers(t *testing.T) {
	t.Parallel()
	has := func(string) rbac.Permissions { return rbac.Permissions{NotKept: []string{"admin"}} }
	account := Account{Granted: has, Held: has, RulesOf: func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) {
		return []rbacv1.PolicyRule{may("get", "configmaps")}, nil
	}}
	const size = maxRemoved
	var objs []Object
	for range size - 1 {
		objs = append(objs, grants(may("get", "configmaps")))
	}
	revoked := grants(named(maxExamined/size + maxReviews/2))
	revoked.Missing = append(revoked.Missing, may("get", "secrets"))
	for range 10 { // in any order
		asked := 0
		confirmed, _, err := account.Confirm(t.Context(), func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
			asked++
			return atom.Resources[0] == "configmaps", nil
		}, rbac.Subject{}, append(objs, revoked))
		require.NoError(t, err)
		require.Len(t, confirmed, 1)
		require.Equal(t, revoked.Missing, confirmed[0].Missing)
		require.LessOrEqual(t, asked, maxReviews)
	}
}

// An object for which all questions are not sufficient leaves some for others.
func TestAnObjectHasAShareOfTheQuestions(t *testing.T) {
	t.Parallel()
	account := Account{Granted: func(string) rbac.Permissions { return rbac.Permissions{} }}
	hog, revoked := grants(named(2*maxReviews)), grants(named(maxReviews/4))
	revoked.Missing = append(revoked.Missing, may("get", "secrets"))
	for range 10 {
		asked := 0
		confirmed, _, err := account.Confirm(t.Context(), func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
			asked++
			return atom.Resources[0] == "configmaps", nil
		}, rbac.Subject{}, []Object{hog, revoked})
		require.NoError(t, err)
		require.Len(t, confirmed, 1)
		require.LessOrEqual(t, asked, maxReviews)
	}
}
