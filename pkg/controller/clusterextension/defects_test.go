package clusterextension_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Each test in this file is named after a known defect in the preflight of OLM v1. Other tests cover the missing numbers:
// TestInstallsAsTheSyntheticUserAfterTheReportIsApplied covers 2 (the identity of synthetic users), TestWaitsForUnservedKinds
// covers 8 (an unknown kind hides all other findings), and the tests of package preflight cover 12 (other authorizers), because
// that package asks the API server about every permission that RBAC does not grant.

// missing installs a bundle as a user who is enrolled but has no permissions, and returns the message of the condition
// Progressing.
func (w *world) missing(manifests ...string) string {
	w.t.Helper()
	w.enroll()
	w.publish("1.0.0", "", manifests...)
	w.install()
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	return w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
}

func TestDefect1GroupsOfServiceAccountsCount(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "installer"}})
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "group-" + w.name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + w.name}},
	})
	w.publish("1.0.0", "", csv, crd)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	w.apply(w.report("enrollment.yaml"))
	w.awaitInstalled("1.0.0")
}

func TestDefect3EscalateByNameCounts(t *testing.T) {
	t.Parallel()
	w := given(t)
	text := w.missing(csv, crd)
	role := regexp.MustCompile(`Resources:\[clusterrolebindings,clusterroles\] ResourceNames:\[([^]]+)\]`).FindStringSubmatch(text)
	require.Len(t, role, 2, text)
	rule := func(groups, resources, verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{groups}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs), ResourceNames: names}
	}
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, Name: w.user()}
	meta := metav1.ObjectMeta{Name: "escalates-" + w.name}
	w.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		rule("", "serviceaccounts", "create get patch"), rule("apps", "deployments", "create get patch list watch"),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "create patch"),
		rule("rbac.authorization.k8s.io", "clusterroles clusterrolebindings", "create get patch"),
		rule("rbac.authorization.k8s.io", "clusterroles", "escalate bind", role[1]),
	}})
	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: meta.Name}, Subjects: []rbacv1.Subject{subject}})
	w.awaitInstalled("1.0.0")
}

func TestDefects4And5RolesThatAggregateOrDoNotExist(t *testing.T) {
	t.Parallel()
	w := given(t)
	text := w.missing(csv, crd,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAME-all}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: NAME}}]}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NAME-gone}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME-gone},
		  subjects: [{kind: ServiceAccount, name: op, namespace: NAME}]}`)
	require.Contains(t, text, `Namespace:"" APIGroups:[*] Resources:[*] Verbs:[*]`)
	require.Contains(t, text, `Namespace:"" Verbs:[*] NonResourceURLs:[*]`)
	require.Contains(t, w.report(preflight.FileReport), w.name+"-gone\", which does not exist")
}

func TestDefect6NarrowerRolesNeedNoMorePermissions(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installedAfterGrant(csv, crd)
	w.publish("1.1.0", "op.v1.0.0", strings.Replace(csv, "verbs: [get, list, watch]", "verbs: [get]", 1), crd)
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.NotContains(t, text, "Resources:[things]")
}

func TestDefects7And11And14OnlyUsedPermissionsAreReported(t *testing.T) {
	t.Parallel()
	w := given(t)
	text := w.missing(csv, crd, configMap)
	for _, verb := range []string{"update", "delete", "finalizers"} {
		require.NotContains(t, text, verb)
	}
	reader := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(w.report(preflight.FileGrant))), 4096)
	creates := 0
	for {
		role := &rbacv1.ClusterRole{}
		err := reader.Decode(role)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "create") {
				require.NotEmpty(t, rule.ResourceNames, "%v", rule)
				creates++
			}
		}
	}
	require.NotZero(t, creates)
}

func TestDefect9UnusualNamesAreReported(t *testing.T) {
	t.Parallel()
	w := given(t)
	text := w.missing(strings.Replace(csv, "verbs: [get, list, watch]}]}]", `verbs: [get, list, watch]}, {nonResourceURLs: ["/a;{b},c"], verbs: [get]}]}]`, 1), crd)
	require.Contains(t, text, `Namespace:"" Verbs:[get] NonResourceURLs:[/a;{b},c]`)
}

func TestDefect10BindingsToMissingRolesAreExplained(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "dangling-" + w.name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "no-such-role"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: w.user()}},
	})
	w.missing(csv, crd)
	report := w.report(preflight.FileReport)
	require.Contains(t, report, "dangling-"+w.name)
	require.Contains(t, report, "no-such-role")
}

func TestDefect13RefusalsByAdmissionAreFoundBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "none"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")},
	}})
	labels := map[string]string{"app": "refused"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "refused"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
	require.Eventually(t, func() bool { // the quota is enforced once its controller has counted the objects
		err := w.admin.Create(t.Context(), deployment.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "exceeded quota")
	}, patience, tick)
	w.grantAll()
	w.publish("1.0.0", "", csv, crd, configMap)
	w.install()
	w.retries("exceeded quota: none")
	require.False(t, w.exists(&corev1.ConfigMap{}, "defaults"))
	w.await(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "none"}}))
	w.awaitInstalled("1.0.0")
}
