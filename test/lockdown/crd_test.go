package lockdown

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	crds    = "customresourcedefinitions"
	crdName = "greetings.sample.remit.dev"
)

// D1 of the security model: a tenant whose account holds no right on CustomResourceDefinitions installs an
// operator that brings one, and the installation's CRD account writes it.
func TestTheCRDAccountWritesNewCRDsForAccountsThatMayNot(t *testing.T) {
	c, err := bounded()
	require.NoError(t, err)
	tn := c.Tenant(t)
	for _, s := range tn.Needs(sampleBundle(t), bundle.Package, tn.Namespace).Scopes() {
		if rules := slices.DeleteFunc(s.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, crds) }); len(rules) > 0 {
			tn.Grant(s.Namespace, rules...)
		}
	}
	held := rbacv1.PolicyRule{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{crds}, Verbs: []string{"create", "patch"}}
	writer := &env.Tenant{T: t, Cluster: c, Namespace: names.DefaultNamespace, Account: types.NamespacedName{Namespace: names.DefaultNamespace, Name: crdWriter}}
	subscribed(tn)
	tn.Group(env.AccountName, tn.Namespace)

	// What is not there yet is waited for, not worked around.
	tn.PlanSays("InstallCheckFailed", "ServiceAccount remit/crd-writer (the installation's CRD account) not found")
	writer.Create(&corev1.ServiceAccount{ObjectMeta: writer.Meta(crdWriter)})
	tn.PlanSays("InstallCheckFailed", "ServiceAccount remit/crd-writer is not enrolled")
	tn.NothingWritten()
	writer.Enrol()
	tn.PlanSays("InstallComponentFailed", `User "system:serviceaccount:remit:crd-writer" cannot`)
	writer.Grant(rbac.ClusterScope, held)

	tn.Succeeded(bundle.CSV)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: crdName}, crd))
	users := map[string]bool{}
	_, err = c.Audited(t.Context(), func(e audit.Event) bool {
		if e.Object != nil && e.Object.Resource == crds && e.Object.Name == crdName && e.IsWrite() && e.Object.Subresource == "" {
			users[e.User.Username] = true
		}
		return false
	})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{scoped.Username(names.DefaultNamespace, crdWriter): true}, users)

	// The next tenant finds it served and needs neither.
	version := crd.ResourceVersion
	writer.Withdraw()
	other := c.Tenant(t)
	for _, s := range other.Needs(sampleBundle(t), bundle.Package, other.Namespace).Scopes() {
		if s.Namespace != rbac.ClusterScope {
			other.Grant(s.Namespace, s.Rules...)
		}
	}
	subscribed(other)
	other.Group(env.AccountName, other.Namespace)
	other.Succeeded(bundle.CSV)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: crdName}, crd))
	require.Equal(t, version, crd.ResourceVersion)
}
