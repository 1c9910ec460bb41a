package replicas

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

// The package that is installed in all namespaces. Its operator has cluster-wide permissions, so that each install has
// ClusterRoles, which only Remit deletes, and a CustomResourceDefinition, which all namespaces share.
const (
	pkg   = "demo"
	first = pkg + ".v1.0.0"
	next  = pkg + ".v2.0.0"
)

var (
	demo     = env.CRD("things", "replicas.remit.dev", "Thing")
	brings   = env.Brings{first: demo, next: demo}
	releases = []string{
		first + " stable everywhere=nodes",
		next + " stable everywhere=nodes replaces=" + first,
	}
)

// operator is one install. Each method changes the operator; its counterpart waits for the result.
type operator interface {
	install()
	installed()
	upgrade()
	upgraded()
	remove()
	removed()
}

// subscribed is an operator that a Subscription installs into its own namespace.
type subscribed struct{ *env.Tenant }

// newSubscribed creates a namespace and an account with the permissions to install the package there.
func newSubscribed(t *testing.T) subscribed {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.GrantReleases()
	write := []string{"get", "create", "patch", "delete"}
	tn.Grant(rbac.ClusterScope,
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: write},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: []string{demo.Name}, Verbs: []string{"create", "patch"}},
	)
	return subscribed{tn}
}

func (s subscribed) install() {
	s.T.Helper()
	s.Group(env.AccountName, s.Namespace)
	s.PublishWith("catalog", brings, releases[0])
	s.Subscribe("catalog", pkg, "stable")
}

func (s subscribed) installed() {
	s.T.Helper()
	s.Succeeded(first)
	s.exactly(first, first)
}

func (s subscribed) upgrade() {
	s.T.Helper()
	s.PublishWith("catalog", brings, releases...)
}

func (s subscribed) upgraded() {
	s.T.Helper()
	s.Succeeded(next)
	s.exactly(next, first, next)
}

// exactly waits until the namespace has this ClusterServiceVersion, its Deployment and one complete InstallPlan for each of the
// versions, and no others. A program that is killed may report a plan as complete only after its restart.
func (s subscribed) exactly(version string, planned ...string) {
	s.T.Helper()
	s.Installed(version)
	s.Eventually(func(c *assert.CollectT) {
		deployments := &appsv1.DeploymentList{}
		assert.NoError(c, cluster.Client.List(s.T.Context(), deployments, client.InNamespace(s.Namespace)))
		if assert.Len(c, deployments.Items, 1) {
			assert.Equal(c, pkg, deployments.Items[0].Name)
		}
		plans := &operatorsv1alpha1.InstallPlanList{}
		assert.NoError(c, cluster.Client.List(s.T.Context(), plans, client.InNamespace(s.Namespace)))
		var got []string
		for i := range plans.Items {
			assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, plans.Items[i].Status.Phase, plans.Items[i].Name)
			got = append(got, plans.Items[i].Spec.ClusterServiceVersionNames...)
		}
		assert.ElementsMatch(c, planned, got)
	})
}

func (s subscribed) remove() {
	s.T.Helper()
	s.delete(&operatorsv1alpha1.Subscription{ObjectMeta: s.Meta(pkg)})
	s.delete(&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: s.Meta(next)})
}

// removed deletes the OperatorGroup last, because Remit uses its account to delete the operator.
func (s subscribed) removed() {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(s.Get(next, &operatorsv1alpha1.ClusterServiceVersion{})), "%s still exists", next)
	})
	s.delete(&operatorsv1.OperatorGroup{ObjectMeta: s.Meta("group")})
	s.delete(&operatorsv1alpha1.CatalogSource{ObjectMeta: s.Meta("catalog")})
	s.delete(&corev1.ConfigMap{ObjectMeta: s.Meta("catalog")})
}

func (s subscribed) delete(obj client.Object) {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), obj))
}
