package controller

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

func TestChecksBothPrograms(t *testing.T) {
	both := programs(authenticationv1.UserInfo{Username: "system:serviceaccount:remit:remit-olm"})
	require.Equal(t, []rbac.Subject{rbac.ServiceAccount("remit", "remit-catalog"), rbac.ServiceAccount("remit", "remit-olm")}, both)
	person := programs(authenticationv1.UserInfo{Username: "admin", Groups: []string{"people"}})
	require.Equal(t, []rbac.Subject{{User: "admin", Groups: []string{"people"}}}, person)
}

func TestReportsAPartialEnrollment(t *testing.T) {
	account := scoped.Account{Namespace: "t1", Name: "acct"}
	for name, row := range map[string]struct {
		subjects []string
		named    string
		want     []string
	}{
		"both":            {[]string{names.ServiceAccountCatalog, names.ServiceAccountOLM}, "acct", nil},
		"one":             {[]string{names.ServiceAccountOLM}, "acct", []string{"system:serviceaccount:remit:remit-catalog"}},
		"another account": {[]string{names.ServiceAccountCatalog, names.ServiceAccountOLM}, "boss", []string{"system:serviceaccount:remit:remit-catalog", "system:serviceaccount:remit:remit-olm"}},
	} {
		t.Run(name, func(t *testing.T) {
			objs := scoped.Enrollment(account.Key(), "remit")
			objs[0].(*rbacv1.Role).Rules[0].ResourceNames = []string{row.named}
			binding := objs[1].(*rbacv1.RoleBinding)
			binding.Subjects = nil
			for _, s := range row.subjects {
				binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "remit", Name: s})
			}
			olm := rbac.ServiceAccount("remit", names.ServiceAccountOLM)
			e := &Enrollment{own: olm, programs: programs(authenticationv1.UserInfo{Username: olm.User})}
			missing, err := e.Missing(listersOf(objs...), account)
			require.NoError(t, err)
			require.Equal(t, row.want, missing)

			own := e.Own(listersOf(objs...), account)
			if slices.Contains(missing, olm.User) {
				require.Equal(t, scoped.AccountNotEnrolled, scoped.ReasonOf(own))
			} else {
				require.NoError(t, own, "only this program's own permission counts")
			}
		})
	}
}

func listersOf(objs ...client.Object) rbac.Listers {
	index := func(match func(client.Object) bool) toolscache.Indexer {
		i := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		for _, o := range objs {
			if match(o) {
				_ = i.Add(o)
			}
		}
		return i
	}
	is := func(kind string) func(client.Object) bool {
		return func(o client.Object) bool {
			return o.GetObjectKind().GroupVersionKind() == rbacv1.SchemeGroupVersion.WithKind(kind)
		}
	}
	return rbac.Listers{
		Roles:               rbacv1listers.NewRoleLister(index(is("Role"))),
		RoleBindings:        rbacv1listers.NewRoleBindingLister(index(is("RoleBinding"))),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(index(is("ClusterRole"))),
		ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(index(is("ClusterRoleBinding"))),
	}
}
