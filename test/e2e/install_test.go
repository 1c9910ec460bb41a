package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

func subscribe(tn *env.Tenant, edit ...func(*operatorsv1alpha1.SubscriptionSpec)) {
	tn.T.Helper()
	tn.Subscribe("catalog", bundle.Package, bundle.Channel, edit...)
}

// grantSample grants the account all permissions that the sample needs for these targets.
func grantSample(tn *env.Tenant, targets ...string) {
	tn.T.Helper()
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(tn.T, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, targets...))
}

func TestAnAccountWithExactlyThePermissionsInstallsAWorkingOperator(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)

	ip := tn.Complete()
	for _, step := range ip.Status.Plan {
		assert.Contains(t, []operatorsv1alpha1.StepStatus{operatorsv1alpha1.StepStatusCreated, operatorsv1alpha1.StepStatusPresent},
			step.Status, "%s %s", step.Resource.Kind, step.Resource.Name)
	}
	require.Equal(t, tn.Account.Name, ip.Status.AttenuatedServiceAccountRef.Name)
	tn.Succeeded(bundle.CSV)
	tn.Eventually(func(c *assert.CollectT) {
		sub := tn.Subscription(c)
		assert.Equal(c, bundle.CSV, sub.Status.CurrentCSV)
		if assert.NotNil(c, sub.Status.InstallPlanRef) {
			assert.Equal(c, ip.Name, sub.Status.InstallPlanRef.Name)
		}
	})
	greets(t, tn, tn.Namespace)
	isBounded(t, tn)
	isMeasured(t, tn)
}

// isMeasured asserts that the programs serve OLM's metrics for the tenant.
func isMeasured(t *testing.T, tn *env.Tenant) {
	t.Helper()
	served := regexp.MustCompile(`^((?:csv|catalogsource)_\w+\{[^}]*namespace="` + tn.Namespace + `"[^}]*\}|\w+_count|\w+_total|subscription_sync_total\{[^}]*\}|` +
		`olm_resolution_duration_seconds_count\{outcome="succeeded"\}) (\S+)$`)
	got, err := cluster.Measured(t.Context(), "", served)
	require.NoError(t, err)
	for name, value := range map[string]float64{
		`csv_succeeded{name="` + bundle.CSV + `",namespace="` + tn.Namespace + `",version="0.1.0"}`: 1,
		`catalogsource_ready{name="catalog",namespace="` + tn.Namespace + `"}`:                      1,
	} {
		require.InDelta(t, value, got[name], 0, "%s: %v", name, got)
	}
	require.Contains(t, got, "csv_upgrade_count")
	for _, name := range []string{"csv_count", "install_plan_count", "subscription_count", "catalog_source_count", "catalog_source_snapshots_total",
		`olm_resolution_duration_seconds_count{outcome="succeeded"}`,
		`subscription_sync_total{approval="",channel="` + bundle.Channel + `",installed="` + bundle.CSV + `",name="` + tn.Subscription(t).Name + `",package="` + bundle.Package + `"}`,
	} {
		require.Positive(t, got[name], "%s: %v", name, got)
	}
}

// greets asserts that the operator, which runs as a process, reconciles a Greeting in the namespace.
func greets(t *testing.T, tn *env.Tenant, namespace string) {
	t.Helper()
	c := cluster.Client
	greeting := &samplev1.Greeting{}
	greeting.Namespace, greeting.Name, greeting.Spec.Message = namespace, "hello", "Hello from "+t.Name()
	content := toUnstructured(t, greeting)
	tn.Eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, client.IgnoreAlreadyExists(c.Create(t.Context(), content.DeepCopy())))
	})

	tn.Eventually(func(ct *assert.CollectT) {
		cm, d := &corev1.ConfigMap{}, &appsv1.Deployment{}
		assert.NoError(ct, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "hello-greeting"}, cm))
		assert.Equal(ct, greeting.Spec.Message, cm.Data["message"])
		assert.NoError(ct, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "hello-greeter"}, d))
		live := content.DeepCopy()
		assert.NoError(ct, c.Get(t.Context(), client.ObjectKeyFromObject(content), live))
		assert.True(ct, meta.IsStatusConditionTrue(greetingOf(ct, live).Status.Conditions, samplev1.ConditionReady))
	})
}

// isBounded asserts that the operator's ServiceAccount has exactly the CSV's permissions in the namespace.
func isBounded(t *testing.T, tn *env.Tenant) {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, cluster.Client.List(t.Context(), pods, client.InNamespace(tn.Namespace), client.MatchingLabels{"name": "sample-operator"}))
	require.Len(t, pods.Items, 1)
	user := pods.Items[0].Spec.ServiceAccountName
	require.Equal(t, "sample-operator", user)
	for _, p := range tn.CSV(t, bundle.CSV).Spec.InstallStrategy.StrategySpec.Permissions {
		for _, rule := range p.Rules {
			allowed(t, tn, user, tn.Namespace, rule, true)
			allowed(t, tn, user, "default", rule, false)
		}
	}
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"delete", "update"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"delete"}},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create", "escalate", "bind"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
	} {
		allowed(t, tn, user, tn.Namespace, rule, false)
	}
}

func allowed(t *testing.T, tn *env.Tenant, serviceAccount, namespace string, rule rbacv1.PolicyRule, want bool) {
	t.Helper()
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: scoped.Username(tn.Namespace, serviceAccount), Groups: rbac.ServiceAccount(tn.Namespace, serviceAccount).Groups,
					ResourceAttributes: attributes(namespace, verb, group, resource),
				}}
				require.NoError(t, cluster.Client.Create(t.Context(), review))
				assert.Equal(t, want, review.Status.Allowed, "%s %s.%s in %s", verb, resource, group, namespace)
			}
		}
	}
}

func TestReportsAllMissingPermissionsAndWritesNothing(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	tn.Group(env.AccountName, tn.Namespace)

	message := tn.PermissionsMissing()
	for _, part := range []string{
		"cannot create resource", `"serviceaccounts"`, `"configmaps"`, `"services"`, `"roles"`, `"rolebindings"`,
		`"clusterserviceversions"`, `"deployments"`, `"greetings"`, "kind: Role\n", "kind: RoleBinding\n", "nothing was written",
	} {
		assert.Contains(t, message, part)
	}
	ip := tn.Plan(t)
	require.Equal(t, operatorsv1alpha1.InstallPlanPhaseInstalling, ip.Status.Phase)
	require.Contains(t, ip.Status.Message, "cannot create resource")
	require.NotEmpty(t, ip.Status.Plan)
	for _, step := range ip.Status.Plan {
		require.Equal(t, operatorsv1alpha1.StepStatusUnknown, step.Status, "%s %s", step.Resource.Kind, step.Resource.Name)
	}
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionInstallPlanPending, string(operatorsv1alpha1.InstallPlanPhaseInstalling), "cannot create resource")
	tn.NothingWritten()
}

// While the plan writes, permissions that have been granted are no longer reported as missing.
func TestReportsAResumedPlanBeforeItsFirstWrite(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	tn.Group(env.AccountName, tn.Namespace)
	message := tn.PermissionsMissing()
	plans, err := cluster.Client.Watch(t.Context(), &operatorsv1alpha1.InstallPlanList{}, client.InNamespace(tn.Namespace))
	require.NoError(t, err)
	defer plans.Stop()
	csvs, err := cluster.Client.Watch(t.Context(), &operatorsv1alpha1.ClusterServiceVersionList{}, client.InNamespace(tn.Namespace))
	require.NoError(t, err)
	defer csvs.Stop()
	tn.Paste(message)
	tn.Complete()

	resumed := next(t, plans, func(ip *operatorsv1alpha1.InstallPlan) bool {
		installed := ip.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
		return !strings.Contains(ip.Status.Message+installed.Message, "is missing") &&
			ip.Status.GetCondition(names.ConditionPermissionsMissing).Status == corev1.ConditionFalse
	})
	first := next(t, csvs, func(*operatorsv1alpha1.ClusterServiceVersion) bool { return true })
	require.Less(t, resumed, first, "resource versions must increase with every write")
}

// next returns the resource version of the next matching object that a watch reports.
func next[T client.Object](t *testing.T, w watch.Interface, matches func(T) bool) int {
	t.Helper()
	for event := range w.ResultChan() {
		if obj, ok := event.Object.(T); ok && matches(obj) {
			version, err := strconv.Atoi(obj.GetResourceVersion())
			require.NoError(t, err)
			return version
		}
	}
	require.Fail(t, "the watch has ended")
	return 0
}
