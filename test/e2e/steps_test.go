package e2e

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// blockedAt returns a tenant whose account has all permissions and whose plan is blocked at the given object.
func blockedAt(t *testing.T, catalog string, obj client.Object) (*env.Tenant, *env.Blocker) {
	t.Helper()
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	blocker := tn.Block(obj)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(catalog))
	subscribe(tn)
	tn.PlanSays(componentFailed, "blocked by the test")
	return tn, blocker
}

func TestAServiceAccountKeepsFieldsOfOthers(t *testing.T) {
	t.Parallel()
	tn, blocker := blockedAt(t, catalogSample, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator-defaults"}})
	sa := &corev1.ServiceAccount{}
	require.NoError(t, tn.Get("sample-operator", sa))
	before := sa.DeepCopy()
	sa.Labels["team"] = "green"
	sa.Annotations["note"] = "ours"
	sa.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	sa.Secrets = []corev1.ObjectReference{{Name: "token"}}
	// If an owner label is removed, the ServiceAccount is written again.
	delete(sa.Labels, names.LabelManaged)
	require.NoError(t, cluster.Client.Patch(t.Context(), sa, client.MergeFrom(before)))

	blocker.Remove()
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	after := &corev1.ServiceAccount{}
	require.NoError(t, tn.Get("sample-operator", after))
	require.Equal(t, before.UID, after.UID)
	require.Equal(t, "true", after.Labels[names.LabelManaged])
	require.Equal(t, "green", after.Labels["team"])
	require.Equal(t, "ours", after.Annotations["note"])
	require.Equal(t, sa.ImagePullSecrets, after.ImagePullSecrets)
	require.Equal(t, sa.Secrets, after.Secrets)
}

func TestWritesServiceAccountsBeforeSecretsThatNameThem(t *testing.T) {
	t.Parallel()
	const catalog = "serviceaccount-with-token"
	tn := subscribed(t, catalog)
	tn.Group(env.AccountName, tn.Namespace)
	tn.GrantMissing()

	ip := tn.Complete()
	index := func(kind, name string) int {
		return slices.IndexFunc(ip.Status.Plan, func(s *operatorsv1alpha1.Step) bool {
			return s.Resource.Kind == kind && s.Resource.Name == name
		})
	}
	require.GreaterOrEqual(t, index("ServiceAccount", "sample-extra"), 0)
	require.Less(t, index("ServiceAccount", "sample-extra"), index("BundleSecret", "sample-token"))
	// The Secret has a token, so the ServiceAccount was created first. Otherwise, the Secret would have been deleted.
	tn.Eventually(func(c *assert.CollectT) {
		secret := &corev1.Secret{}
		assert.NoError(c, tn.Get("sample-token", secret))
		assert.NotEmpty(c, secret.Data[corev1.ServiceAccountTokenKey])
	})
}

func TestReportsWarningsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, "with-a-warning")
	tn.Group(env.AccountName, tn.Namespace)
	tn.GrantMissing()

	ip := tn.Complete()
	at := slices.IndexFunc(ip.Status.Plan, func(s *operatorsv1alpha1.Step) bool { return s.Resource.Name == "sample-headless" })
	require.GreaterOrEqual(t, at, 0)
	tn.Eventually(func(c *assert.CollectT) {
		list := &eventsv1.EventList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
		list.Items = slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason != "AppliedWithWarnings" })
		if assert.Len(c, list.Items, 1) {
			about := list.Items[0].Regarding
			assert.Equal(c, ip.Name+" "+string(ip.UID)+" status.plan["+strconv.Itoa(at)+"]", about.Name+" "+string(about.UID)+" "+about.FieldPath)
			assert.Contains(c, list.Items[0].Note, "Service sample-headless: spec.SessionAffinity is ignored for headless services")
		}
	})
	counted, err := cluster.Measured(t.Context(), names.ServiceAccountCatalog, regexp.MustCompile(`^(installplan_warnings_total) (\S+)$`))
	require.NoError(t, err)
	require.Positive(t, counted["installplan_warnings_total"])
}

func TestRecreatesObjectsThatAreDeletedBeforeThePlanCompletes(t *testing.T) {
	t.Parallel()
	tn, blocker := blockedAt(t, catalogSample, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator-health"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
	made := &corev1.ConfigMap{}
	require.NoError(t, tn.Get("sample-operator-defaults", made))
	require.NoError(t, cluster.Client.Delete(t.Context(), made))

	blocker.Remove()
	tn.Complete()
	again := &corev1.ConfigMap{}
	require.NoError(t, tn.Get("sample-operator-defaults", again))
	require.NotEqual(t, made.UID, again.UID)
}

// All accounts may write the CustomResourceDefinition, which does not exist when the plans start.
func TestConcurrentInstallsOfTenantsDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	const together = 4
	var tenants []*env.Tenant
	for range together {
		tn := cluster.Tenant(t)
		tn.Catalog("catalog", image(catalogOwnGroup))
		subscribe(tn, func(s *operatorsv1alpha1.SubscriptionSpec) { s.InstallPlanApproval = operatorsv1alpha1.ApprovalManual })
		tn.Group(env.AccountName, tn.Namespace)
		tn.Grant(tn.Namespace, everything())
		tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"},
			Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "create", "patch"}})
		tn.Eventually(func(c *assert.CollectT) {
			assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, tn.Plan(c).Status.Phase)
		})
		tenants = append(tenants, tn)
	}
	for _, tn := range tenants {
		approve(t, tn)
	}
	var made, changed int
	for _, tn := range tenants {
		tn.Complete()
		for _, e := range tn.Writes() {
			switch {
			case e.Object.Resource != "customresourcedefinitions":
			case e.Created():
				made++
			case e.Response.Code == http.StatusOK:
				changed++
			}
		}
	}
	require.LessOrEqual(t, made, 1, "the test cannot run twice on the same cluster")
	require.Zero(t, changed)
}

func everything() rbacv1.PolicyRule {
	all := []string{"*"}
	return rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all}
}
