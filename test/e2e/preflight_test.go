package e2e

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// granted returns a tenant whose account has all permissions that the sample needs.
func granted(t *testing.T, catalog string) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	tn.Catalog("catalog", image(catalog))
	return tn
}

func TestAQuotaRefusesBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	tn := granted(t, catalogSample)
	quota := &corev1.ResourceQuota{ObjectMeta: tn.Meta("none"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/services": resource.MustParse("0")}}}
	tn.Create(quota)
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get(quota.Name, quota))
		assert.NotEmpty(c, quota.Status.Hard)
	})
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)

	message := tn.ObjectsRefused()
	require.Contains(t, message, "- Service "+tn.Namespace+"/sample-operator-health: ")
	require.Contains(t, message, "exceeded quota: none")
	tn.PlanSays(componentFailed, "1 object(s) were refused; nothing was written.")
	tn.NothingWritten()

	require.NoError(t, cluster.Client.Delete(t.Context(), quota))
	tn.Complete()
}

func TestReportsAllRefusalsByPoliciesAtOnce(t *testing.T) {
	t.Parallel()
	tn := granted(t, catalogSample)
	labels := map[string]string{"name": "sample-operator"}
	blockers := []*env.Blocker{
		tn.Refuse(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator-defaults"}}),
		tn.Refuse(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}}),
	}
	theirs := &corev1.ServiceAccount{ObjectMeta: tn.Meta("sample-operator")}
	tn.Create(theirs)
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)

	message := tn.ObjectsRefused()
	for _, object := range []string{"ConfigMap " + tn.Namespace + "/sample-operator-defaults", "Deployment " + tn.Namespace + "/sample-operator"} {
		require.Contains(t, message, "- "+object+": ")
	}
	require.Equal(t, 2, strings.Count(message, "blocked by the test"))
	require.Contains(t, message, "- ServiceAccount "+tn.Namespace+"/sample-operator already exists and was not created by this install")
	require.Contains(t, message, "ConfigMap "+tn.Namespace+"/"+tn.Report().Name)
	tn.NothingWritten()
	require.Equal(t, 3, strings.Count(tn.Report().Data[preflight.FileReport], " message: "))

	require.NoError(t, cluster.Client.Delete(t.Context(), theirs))
	for _, b := range blockers {
		b.Remove()
	}
	tn.Complete()
	require.NotContains(t, tn.Report().Data[preflight.FileReport], "refused")
}

func TestAnObjectThatTheSchemaForbidsFailsThePlanBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	tn := granted(t, "bad-port")
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)

	tn.PlanSays(componentFailed, "Service "+tn.Namespace+"/sample-operator-health: ")
	ip := tn.Plan(t)
	require.Equal(t, operatorsv1alpha1.InstallPlanPhaseFailed, ip.Status.Phase)
	for _, step := range ip.Status.Plan {
		want := operatorsv1alpha1.StepStatusUnknown
		if step.Resource.Kind == "Service" {
			want = operatorsv1alpha1.StepStatusNotCreated
		}
		require.Equal(t, want, step.Status, step.Resource.Kind)
	}
	tn.NothingWritten()
}

func TestReportsAnUnservedKindBeforeAnythingIsGranted(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, "unknown-version")
	tn.Group(env.AccountName, tn.Namespace)

	const unknown = "GroupVersionKind autoscaling.k8s.io/v2, Kind=VerticalPodAutoscaler not found on the cluster"
	refused := tn.ObjectsRefused()
	require.Contains(t, refused, unknown)
	require.NotContains(t, refused, "cannot create resource")
	tn.PlanSays(componentFailed, unknown)
	require.Equal(t, corev1.ConditionUnknown, tn.Plan(t).Status.GetCondition(names.ConditionPermissionsMissing).Status)
	tn.NothingWritten()

	keep := true
	tn.Create(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "verticalpodautoscalers.autoscaling.k8s.io",
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "autoscaling.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "VerticalPodAutoscaler", Plural: "verticalpodautoscalers", Singular: "verticalpodautoscaler"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v2", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &keep}}}},
		},
	})
	message := tn.PermissionsMissing()
	require.Contains(t, message, `cannot create resource "verticalpodautoscalers" in API group "autoscaling.k8s.io"`)
	require.Contains(t, message, `cannot create resource "configmaps"`)
	tn.Paste(message)
	tn.Complete()
}

// The test applies only the manifests in the report.
func TestTheReportGrantsEverythingAtOnce(t *testing.T) {
	bounded(t)
	t.Parallel()
	for catalog, targets := range map[string][]string{
		catalogSample: {"own"}, "ten-thousand-rules": {"own"}, "own-cluster-role": {"own", "other"},
	} {
		t.Run(catalog, func(t *testing.T) {
			t.Parallel()
			tn := subscribed(t, catalog)
			for i, target := range targets {
				targets[i] = tn.Namespace
				if target == "other" {
					targets[i] = tn.Other(nil)
				}
			}
			tn.Group(env.AccountName, targets...)
			message := tn.PermissionsMissing()
			report := tn.Report()
			require.Contains(t, message, "The full report is in ConfigMap "+tn.Namespace+"/"+report.Name)
			require.Len(t, report.OwnerReferences, 1)
			require.Equal(t, tn.Plan(t).UID, report.OwnerReferences[0].UID)
			require.Contains(t, report.Data[preflight.FileReport], "apply ClusterServiceVersion "+tn.Namespace+"/"+bundle.CSV)
			require.NotContains(t, report.Data[preflight.FileReport], "leftOut")
			tn.NothingWritten()

			tn.Apply(report.Data[preflight.FileGrant])
			tn.Complete()
			tn.Succeeded(bundle.CSV)
			require.Contains(t, tn.Report().Data[preflight.FileGrant], "is not missing any permissions")
		})
	}
}

func TestDoesNotOverwriteAConfigMapWithTheNameOfAReport(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	tn.Group(env.AccountName, tn.Namespace)
	tn.PermissionsMissing()
	report := tn.Report()
	require.NoError(t, cluster.Client.Delete(t.Context(), report))
	theirs := &corev1.ConfigMap{ObjectMeta: tn.Meta(report.Name), Data: map[string]string{"report.yaml": "mine"}}
	tn.Create(theirs)

	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}})
	tn.Eventually(func(c *assert.CollectT) {
		message := tn.Plan(c).Status.GetCondition(names.ConditionPermissionsMissing).Message
		assert.Contains(c, message, "The full report could not be written: ConfigMap "+tn.Namespace+"/"+theirs.Name+" already exists and was not created by this install")
		assert.Contains(c, message, "To grant the missing permissions, apply:")
	})
	require.Equal(t, theirs.ResourceVersion, tn.Report().ResourceVersion)
}

// Although the controller may write ConfigMaps, a policy in the manifests denies all such writes except those of
// reports.
func TestControllerIdentitiesWriteNoConfigMapsExceptReports(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	self := cluster.As(t, "system:serviceaccount:remit:remit-catalog")
	tn.Group(env.AccountName, tn.Namespace)
	plan, another := ownPlan(tn, "plan"), ownPlan(tn, "another") // objects whose owner does not exist would be deleted
	report := func(edit func(*corev1.ConfigMap)) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{ObjectMeta: tn.Meta("remit-report-plan"), Data: map[string]string{"report.yaml": "x", "grant.yaml": "y"}}
		cm.APIVersion, cm.Kind = "v1", "ConfigMap"
		cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: "InstallPlan", Name: plan.Name, UID: plan.UID}}
		edit(cm)
		return cm
	}
	apply := func(cm *corev1.ConfigMap) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cm)
		require.NoError(t, err)
		obj := &unstructured.Unstructured{Object: content}
		return self.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
	}
	require.NoError(t, apply(report(func(*corev1.ConfigMap) {})))
	tn.Eventually(func(c *assert.CollectT) {
		assert.Error(c, apply(report(func(cm *corev1.ConfigMap) { cm.Name = "config" })), "the policy is not in force yet")
	})
	for what, edit := range map[string]func(*corev1.ConfigMap){
		"another name":        func(cm *corev1.ConfigMap) { cm.Name = "config" },
		"another plan's name": func(cm *corev1.ConfigMap) { cm.Name += "-b" },
		"no owner":            func(cm *corev1.ConfigMap) { cm.OwnerReferences = nil },
		"two owners": func(cm *corev1.ConfigMap) {
			cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"})
		},
		"an owner of another kind": func(cm *corev1.ConfigMap) { cm.OwnerReferences[0].Kind = "Subscription" },
		"another key":              func(cm *corev1.ConfigMap) { cm.Data["more"] = "x" },
		"binary data":              func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"more": nil} },
		"a label":                  func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"a": "b"} },
		"a finalizer":              func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"test/x"} },
		"immutable":                func(cm *corev1.ConfigMap) { yes := true; cm.Immutable = &yes },
	} {
		require.ErrorContains(t, apply(report(edit)), "remit-self-reports", what)
	}
	for what, edit := range map[string]func(*corev1.ConfigMap){
		"without an owner":     func(cm *corev1.ConfigMap) { cm.OwnerReferences = nil },
		"with a different key": func(cm *corev1.ConfigMap) { cm.Data["more"] = "x" },
		"owned by another plan": func(cm *corev1.ConfigMap) {
			cm.OwnerReferences[0].Name, cm.OwnerReferences[0].UID = another.Name, another.UID
		},
	} {
		live := report(edit)
		tn.Create(live)
		require.Error(t, apply(report(func(*corev1.ConfigMap) {})), what)
		require.NoError(t, cluster.Client.Delete(t.Context(), live))
	}
	live := report(func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"a": "b"} })
	tn.Create(live)
	require.NoError(t, apply(report(func(cm *corev1.ConfigMap) { cm.Data["report.yaml"] = "newer" })), "a report that another user labeled")
}

// ownPlan returns a plan that a user created. It is not executed.
func ownPlan(tn *env.Tenant, name string) *operatorsv1alpha1.InstallPlan {
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: tn.Meta(name)}
	plan.Spec.Approval, plan.Spec.ClusterServiceVersionNames = operatorsv1alpha1.ApprovalManual, []string{"none"}
	tn.Create(plan)
	return plan
}

// manyRules returns 10,000 rules, 500 of them distinct. The API server's escalation check compares each rule with all
// rules of the account, so with 10,000 distinct rules, each write would take half a minute of CPU time.
func manyRules() []any {
	verbs := []any{"get", "list", "watch", "create", "update"}
	var out []any
	for i := range 10_000 {
		out = append(out, map[string]any{
			"apiGroups": []any{fmt.Sprintf("g%d.example.com", i%10)}, "resources": []any{fmt.Sprintf("things%d", i%500)}, "verbs": []any{verbs[i%len(verbs)]},
		})
	}
	return out
}

// The resolution already finds what the account is missing, so this is reported even if no InstallPlan can be created.
func TestReportsMissingPermissionsBeforeAPlanExists(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	quota := &corev1.ResourceQuota{ObjectMeta: tn.Meta("none"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/installplans.operators.coreos.com": resource.MustParse("0")}}}
	tn.Create(quota)
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get(quota.Name, quota))
		assert.NotEmpty(c, quota.Status.Hard)
	})
	tn.Catalog("catalog", image(catalogSample))
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)
	tn.Eventually(func(c *assert.CollectT) {
		got := tn.Subscription(c).Status.GetCondition(names.ConditionPermissionsMissing)
		assert.Equal(c, corev1.ConditionTrue, got.Status)
		assert.Contains(c, got.Message, "is missing permissions that "+bundle.CSV+" requests: in namespace "+tn.Namespace)
		assert.Contains(c, got.Message, "The InstallPlan, which does not exist yet, ")
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), quota))
	require.Contains(t, tn.PermissionsMissing(), "\n---\n", "the report of the InstallPlan replaces that of the resolution")
}
