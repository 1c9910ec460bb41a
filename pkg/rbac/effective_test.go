package rbac

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// given returns listers that read the objects.
func given(t *testing.T, objects ...any) Listers {
	t.Helper()
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, bindings, clusterRoles, clusterBindings := indexer(), indexer(), indexer(), indexer()
	for _, obj := range objects {
		into := roles
		switch obj.(type) {
		case *rbacv1.RoleBinding:
			into = bindings
		case *rbacv1.ClusterRole:
			into = clusterRoles
		case *rbacv1.ClusterRoleBinding:
			into = clusterBindings
		}
		require.NoError(t, into.Add(obj))
	}
	return Listers{
		Roles:               rbacv1listers.NewRoleLister(roles),
		RoleBindings:        rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(clusterRoles),
		ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(clusterBindings),
	}
}

func role(namespace, name string, texts ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules(texts...)}
}

func clusterRole(name string, texts ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules(texts...)}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func binding(namespace, name string, to rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: to, Subjects: subjects}
}

func clusterBinding(name string, to rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: to, Subjects: subjects}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

// The numbers in the row names are those of the rows in test/differential/rows.
func TestEffectiveRulesFollowBindings(t *testing.T) {
	acct := account("t1", "acct")
	pods := []any{role("t1", "pods", "get :pods"), clusterRole("pods", "get :pods")}
	inT1 := func(to rbacv1.RoleRef, s ...rbacv1.Subject) any { return binding("t1", "b", to, s...) }
	everywhere := func(s ...rbacv1.Subject) any { return clusterBinding("b", ref("ClusterRole", "pods"), s...) }
	for _, row := range []struct {
		name      string
		objects   []any
		namespace string
		want      []rbacv1.PolicyRule
	}{
		{"20 rules of several roles add up", []any{
			role("t1", "a", "get :pods"), role("t1", "b", "list :pods"), clusterRole("c", "watch :pods"),
			binding("t1", "1", ref("Role", "a"), acct), binding("t1", "2", ref("Role", "b"), acct), binding("t1", "3", ref("ClusterRole", "c"), acct),
		}, "t1", rules("get,list,watch :pods")},
		{"21 a ClusterRoleBinding applies in a namespace", []any{everywhere(acct)}, "t2", rules("get :pods")},
		{"21 a ClusterRoleBinding applies cluster-wide", []any{everywhere(acct)}, ClusterScope, rules("get :pods")},
		{"22 a RoleBinding applies only in its namespace", []any{inT1(ref("Role", "pods"), acct)}, "t2", nil},
		{"23 a RoleBinding does not apply cluster-wide", []any{inT1(ref("Role", "pods"), acct)}, ClusterScope, nil},
		{"24 a RoleBinding may bind a ClusterRole", []any{inT1(ref("ClusterRole", "pods"), acct)}, "t1", rules("get :pods")},
		{"44 a RoleBinding to a ClusterRole does not apply cluster-wide", []any{inT1(ref("ClusterRole", "pods"), acct)}, ClusterScope, nil},
		{"27 the group of the namespace's accounts", []any{inT1(ref("Role", "pods"), group("system:serviceaccounts:t1"))}, "t1", rules("get :pods")},
		{"27 the group of another namespace's accounts", []any{inT1(ref("Role", "pods"), group("system:serviceaccounts:t2"))}, "t1", nil},
		{"27 the group of all accounts", []any{everywhere(group("system:serviceaccounts"))}, "t1", rules("get :pods")},
		{"28 the group of all authenticated users", []any{everywhere(group("system:authenticated"))}, "t1", rules("get :pods")},
		{"28 the group of unauthenticated users", []any{everywhere(group("system:unauthenticated"))}, "t1", nil},
		{"29 no account is in system:masters", []any{everywhere(group("system:masters"))}, "t1", nil},
		{"30 the account by its user name", []any{inT1(ref("Role", "pods"), user("system:serviceaccount:t1:acct"))}, "t1", rules("get :pods")},
		{"30 a user with the account's short name", []any{inT1(ref("Role", "pods"), user("acct"))}, "t1", nil},
		{"31 a subject without a namespace belongs to that of the RoleBinding", []any{inT1(ref("Role", "pods"), account("", "acct"))}, "t1", rules("get :pods")},
		{"31 a subject without a namespace in a ClusterRoleBinding matches nothing", []any{everywhere(account("", "acct"))}, "t1", nil},
		{"32 an account of another namespace", []any{inT1(ref("Role", "pods"), account("t2", "acct"))}, "t1", nil},
		{"another account", []any{inT1(ref("Role", "pods"), account("t1", "other"))}, "t1", nil},
		{"one of several subjects", []any{inT1(ref("Role", "pods"), user("x"), acct, group("y"))}, "t1", rules("get :pods")},
		{"a subject of unknown kind", []any{inT1(ref("Role", "pods"), rbacv1.Subject{Kind: "Robot", Name: "acct"})}, "t1", nil},
		{"a Role that does not exist", []any{inT1(ref("Role", "gone"), acct), everywhere(acct)}, "t1", rules("get :pods")},
		{"a ClusterRole that does not exist", []any{
			clusterBinding("a", ref("ClusterRole", "gone"), acct), inT1(ref("Role", "pods"), acct),
		}, "t1", rules("get :pods")},
		{"a Role of the same name in another namespace", []any{binding("t2", "b", ref("Role", "pods"), acct)}, "t2", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			granted, err := given(t, append(row.objects, pods...)...).EffectiveRules(ServiceAccount("t1", "acct"), row.namespace)
			require.NoError(t, err)
			require.Equal(t, row.want, Compact(granted))
		})
	}
}

func TestEffectiveRulesReportsReadErrors(t *testing.T) {
	acct := ServiceAccount("t1", "acct")
	robot := ref("Robot", "x")

	_, err := given(t, binding("t1", "b", robot, account("t1", "acct"))).EffectiveRules(acct, "t1")
	require.ErrorContains(t, err, `unknown kind "Robot"`)
	_, err = given(t, clusterBinding("b", robot, account("t1", "acct"))).EffectiveRules(acct, ClusterScope)
	require.ErrorContains(t, err, `unknown kind "Robot"`)

	l := given(t)
	l.ClusterRoleBindings = broken{l.ClusterRoleBindings}
	_, err = l.EffectiveRules(acct, "t1")
	require.ErrorContains(t, err, "list ClusterRoleBindings: no cache")
}

type broken struct {
	rbacv1listers.ClusterRoleBindingLister
}

func (broken) List(labels.Selector) ([]*rbacv1.ClusterRoleBinding, error) {
	return nil, errors.New("no cache")
}

func TestRulesOfAMissingRoleIsNotFound(t *testing.T) {
	l := given(t, role("t1", "a", "get :pods"))
	got, err := l.RulesOf(ref("Role", "a"), "t1")
	require.NoError(t, err)
	require.Equal(t, rules("get :pods"), got)
	for _, r := range []rbacv1.RoleRef{ref("Role", "b"), ref("ClusterRole", "a")} {
		_, err := l.RulesOf(r, "t1")
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	}
}
