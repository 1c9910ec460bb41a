package olm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

const (
	failed  = operatorsv1alpha1.CSVPhaseFailed
	pending = operatorsv1alpha1.CSVPhasePending
)

func TestACSVSucceedsWithMinimalPermissions(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn)

	got := requireSucceeded(tn)
	require.Equal(t, "install strategy completed with no errors", got.Status.Message)
	require.Equal(t, tn.Namespace, got.Annotations["olm.targetNamespaces"])
	require.Equal(t, "group", got.Annotations["olm.operatorGroup"])
	var reasons []string
	for _, c := range got.Status.Conditions {
		reasons = append(reasons, string(c.Phase)+"/"+string(c.Reason))
	}
	require.Subset(t, reasons, []string{"Pending/RequirementsUnknown", "InstallReady/AllRequirementsMet", "Installing/InstallSucceeded",
		"Succeeded/InstallSucceeded"})
	requireRequirement(t, got, "demo", `namespaced rule:{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}`)

	d := &appsv1.Deployment{}
	require.NoError(t, tn.Get("demo", d))
	require.Equal(t, "true", d.Labels["olm.managed"])
	require.Equal(t, "demo.v1.0.0", d.Labels["olm.owner"])
	require.Equal(t, got.UID, d.OwnerReferences[0].UID)
	require.Equal(t, tn.Namespace, d.Spec.Template.Annotations["olm.targetNamespaces"])
	require.Equal(t, corev1.EnvVar{Name: "OPERATOR_CONDITION_NAME", Value: "demo.v1.0.0"}, d.Spec.Template.Spec.Containers[0].Env[0])
	require.EqualValues(t, 1, *d.Spec.RevisionHistoryLimit)
	requireEvent(tn, "InstallSucceeded")
}

func requireRequirement(t *testing.T, c *csv, name, dependent string) {
	t.Helper()
	for _, r := range c.Status.RequirementStatus {
		if r.Name == name {
			require.EqualValues(t, "Present", r.Status)
			require.Equal(t, dependent, r.Dependents[0].Message)
			require.EqualValues(t, "Satisfied", r.Dependents[0].Status)
			return
		}
	}
	require.Failf(t, "no such requirement", "%s in %v", name, c.Status.RequirementStatus)
}

func requireEvent(tn *env.Tenant, reason string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		list := &eventsv1.EventList{}
		assert.NoError(c, cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
		var reasons []string
		for _, e := range list.Items {
			reasons = append(reasons, e.Reason)
		}
		assert.Contains(c, reasons, reason)
	})
}

func TestRecreatesADeletedDeployment(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn)
	requireSucceeded(tn)

	old := &appsv1.Deployment{}
	require.NoError(t, tn.Get("demo", old))
	require.NoError(t, cluster.Client.Delete(t.Context(), old))
	tn.Eventually(func(c *assert.CollectT) {
		d := &appsv1.Deployment{}
		assert.NoError(c, tn.Get("demo", d))
		assert.NotEqual(c, old.UID, d.UID)
	})
	got := requireSucceeded(tn)
	var reasons []string
	for _, c := range got.Status.Conditions {
		reasons = append(reasons, string(c.Phase)+"/"+string(c.Reason))
	}
	require.Subset(t, reasons, []string{"Failed/ComponentUnhealthy", "Pending/NeedsReinstall"})
}

func TestRecreatesADeletedRole(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn)
	requireSucceeded(tn)
	role := operatorRoles(tn, tn.Namespace)[0]
	require.NoError(t, cluster.Client.Delete(t.Context(), &role))
	tn.Eventually(func(c *assert.CollectT) {
		if now := operatorRoles(tn, tn.Namespace); assert.Len(c, now, 1) {
			assert.NotEqual(c, role.UID, now[0].UID)
		}
	})
	requireSucceeded(tn)
}

func operatorRoles(tn *env.Tenant, namespace string) []rbacv1.Role {
	tn.T.Helper()
	list := &rbacv1.RoleList{}
	require.NoError(tn.T, cluster.Client.List(tn.T.Context(), list, client.InNamespace(namespace),
		client.HasLabels{names.LabelPermissionsHash}, client.MatchingLabels{names.LabelOwnerNamespace: tn.Namespace}))
	return list.Items
}

func TestReportsMissingPermissionsAndResumesAfterAGrant(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn)
	tn.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, pending, got.Status.Phase)
		assert.Contains(c, got.Status.Message, "one or more requirements couldn't be found: ServiceAccount "+tn.Account.String()+" is missing permissions: in namespace")
	})
	require.Empty(t, operatorRoles(tn, tn.Namespace))

	grantAllButDeployments(tn)
	got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)
	require.Contains(t, got.Status.Message, `install strategy failed: ServiceAccount `+tn.Account.String()+
		` is missing permissions: in namespace `+tn.Namespace+` {apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["demo"], verbs: ["create", "get", "patch"]}`)

	granted := time.Now()
	tn.Grant(tn.Namespace, manageDeployments())
	requireSucceeded(tn)
	t.Logf("from the grant to Succeeded: %v", time.Since(granted))
}

func TestRejectsUnsupportedOperatorGroups(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tn.Namespace}}
	first := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"remit.dev/clusterserviceversion-first":""}}}`))
	require.NoError(t, cluster.Client.Patch(t.Context(), ns, first))
	grant(tn)
	newCSV(tn, func(c *csv) {
		for i := range c.Spec.InstallModes {
			c.Spec.InstallModes[i].Supported = c.Spec.InstallModes[i].Type == "OwnNamespace"
		}
	})
	got := requirePhase(tn, failed, "NoOperatorGroup")
	require.Equal(t, "csv in namespace with no operatorgroups", got.Status.Message)

	group := tn.Group(env.AccountName, tn.Namespace)
	requireSucceeded(tn)

	other := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("other")}
	tn.Create(other)
	got = requirePhase(tn, failed, "TooManyOperatorGroups")
	require.Equal(t, "csv created in namespace with multiple operatorgroups, can't pick one automatically", got.Status.Message)
	requireCondition(tn, "other", "MultipleOperatorGroup", metav1.ConditionTrue, "MultipleOperatorGroupsFound")
	require.NoError(t, cluster.Client.Delete(t.Context(), other))
	requireSucceeded(tn)
	requireCondition(tn, "group", "MultipleOperatorGroup", metav1.ConditionFalse, "OnlyOperatorGroup")

	retarget(tn, group, "elsewhere")
	got = requirePhase(tn, failed, "UnsupportedOperatorGroup")
	require.Equal(t, "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace", got.Status.Message)
	retarget(tn, group, tn.Namespace)
	requireSucceeded(tn)
}

func retarget(tn *env.Tenant, group *operatorsv1.OperatorGroup, targets ...string) {
	tn.T.Helper()
	require.NoError(tn.T, tn.Get(group.Name, group))
	before := group.DeepCopy()
	group.Spec.TargetNamespaces = targets
	require.NoError(tn.T, cluster.Client.Patch(tn.T.Context(), group, client.MergeFrom(before)))
}

func TestRejectsInvalidStrategiesBeforeAnyWrite(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit edit
		says string
	}{
		"no deployments": {func(c *csv) {
			c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
		}, "no deployments"},
		"path":      {func(c *csv) { pod(c).ServiceAccountName = "../x" }, `serviceAccountName "../x"`},
		"old field": {func(c *csv) { pod(c).ServiceAccountName, pod(c).DeprecatedServiceAccount = "", "../x" }, `serviceAccountName "../x"`},
		"long":      {func(c *csv) { pod(c).ServiceAccountName = strings.Repeat("x", 300) }, "serviceAccountName"},
		"unicode":   {func(c *csv) { pod(c).ServiceAccountName = "ünicode" }, "serviceAccountName"},
		"no verbs": {func(c *csv) {
			c.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules[0].Verbs = []string{}
		}, "no verbs"},
		"no groups": {func(c *csv) {
			c.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules[0].APIGroups = nil
		}, "no apiGroups"},
	} {
		t.Run(name, func(t *testing.T) {
			tn := cluster.Tenant(t)
			grant(tn)
			tn.Group(env.AccountName, tn.Namespace)
			newCSV(tn, tc.edit)
			got := requirePhase(tn, failed, "InvalidInstallStrategy")
			require.True(t, strings.HasPrefix(got.Status.Message, "install strategy invalid: "), got.Status.Message)
			require.Contains(t, got.Status.Message, tc.says)
			require.Empty(t, operatorRoles(tn, tn.Namespace))
			require.Equal(t, []string{names.AnnotationAccount}, slices.Collect(maps.Keys(got.Annotations)), "only the account is recorded")
		})
	}
}

func TestRefusesIdentitiesThatAnOperatorMayNotHave(t *testing.T) {
	t.Parallel()
	t.Run("the account itself", func(t *testing.T) {
		tn := cluster.Tenant(t)
		grant(tn)
		tn.Group(env.AccountName, tn.Namespace)
		newCSV(tn, func(c *csv) { pod(c).ServiceAccountName = env.AccountName })
		got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)
		require.Contains(t, got.Status.Message, "it is the account that bounds this install")
		require.True(t, apierrors.IsNotFound(tn.Get("demo", &appsv1.Deployment{})))
	})
	t.Run("a ServiceAccount with more permissions", func(t *testing.T) {
		tn := cluster.Tenant(t)
		grant(tn)
		tn.Group(env.AccountName, tn.Namespace)
		tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta("boss")})
		tn.Create(&rbacv1.RoleBinding{ObjectMeta: tn.Meta("boss"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tn.Namespace, Name: "boss"}}})
		newCSV(tn, func(c *csv) { pod(c).ServiceAccountName = "boss" })
		got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)
		require.Contains(t, got.Status.Message, `may not run as ServiceAccount "boss"`)
	})
	t.Run("the default ServiceAccount without permissions", func(t *testing.T) {
		tn := cluster.Tenant(t)
		grant(tn)
		tn.Group(env.AccountName, tn.Namespace)
		newCSV(tn, func(c *csv) { pod(c).ServiceAccountName = "" })
		requireSucceeded(tn)
	})
}

func TestDoesNotChangeDeploymentsOfOthers(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	labels := map[string]string{"app": "theirs"}
	theirs := &appsv1.Deployment{ObjectMeta: tn.Meta("demo"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "images.test/theirs:1"}}}},
	}}
	tn.Create(theirs)
	newCSV(tn)
	got := requirePhase(tn, pending, operatorsv1alpha1.CSVReasonRequirementsNotMet)
	require.Contains(t, got.Status.Message, "Deployment "+tn.Namespace+"/demo already exists and was not created by this install")
	require.Empty(t, operatorRoles(tn, tn.Namespace), "nothing was written")

	require.NoError(t, cluster.Client.Delete(t.Context(), theirs))
	requireSucceeded(tn)
}

func TestRolesFollowTheTargets(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	other := tn.Namespace + "-other"
	tn.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})
	tn.Grant(other, append(manageRBAC(), readConfigMaps())...)
	group := tn.Group(env.AccountName, tn.Namespace, other)
	newCSV(tn)
	got := requireSucceeded(tn)
	require.Len(t, operatorRoles(tn, other), 1)
	require.Contains(t, got.Finalizers, names.FinalizerCSV)

	retarget(tn, group, tn.Namespace)
	tn.Eventually(func(c *assert.CollectT) {
		assert.Empty(c, operatorRoles(tn, other))
		d := &appsv1.Deployment{}
		assert.NoError(c, tn.Get("demo", d))
		assert.Equal(c, tn.Namespace, d.Spec.Template.Annotations["olm.targetNamespaces"])
	})
	requireSucceeded(tn)
}
