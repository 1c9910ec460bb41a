package csv

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// permitted gives the operator's ServiceAccount permissions, as a user does.
func permitted(resources ...string) change {
	named := metav1.ObjectMeta{Namespace: "t1", Name: "by-user"}
	return with(
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "demo"}}},
	)
}

// identified creates the operator's ServiceAccount with all permissions that the demo requests, as a user does.
func identified(w *world) {
	with(serviceAccount("demo"))(w)
	permitted("pods")(w)
}

// provides reports whether the writes include the operator's ServiceAccount, roles or bindings.
func provides(writes []string) bool {
	return slices.ContainsFunc(writes, func(write string) bool {
		return strings.Contains(write, "ServiceAccount t1/demo") || strings.Contains(write, "/demo.v1.0.0-demo-")
	})
}

func TestTheDefaultAccountOnlyChecksWhatAHandMadeCSVNeeds(t *testing.T) {
	t.Parallel()
	absent := effect{phase: phasePending, reason: reasonRequirementsNotMet, message: messageNotMet, unmet: []string{"ServiceAccount demo: NotPresent Service account does not exist"}}
	lacking := effect{phase: phasePending, reason: reasonRequirementsNotMet, message: messageNotMet,
		unmet: []string{`ServiceAccount demo: PresentNotSatisfied Policy rule not satisfied for service account` + `: in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`}}
	for _, row := range []struct {
		name  string
		given []change
		want  effect
	}{
		{"the ServiceAccount does not exist", []change{byDefault}, absent},
		{"its permissions do not exist", []change{byDefault, with(serviceAccount("demo")), permitted("secrets")}, lacking},
		{"all exist", []change{byDefault, identified}, effect{phase: phaseInstalling, reason: reasonWaiting}},
		{"they are created later", []change{byDefault, settled, with(serviceAccount("demo")), settled, permitted("pods")}, effect{phase: phaseInstalling, reason: reasonWaiting}},
		{"the ServiceAccount is deleted later", []change{byDefault, identified, installed, without(serviceAccount("demo"))},
			effect{phase: phaseFailed, reason: reasonRequirementsNotMet, message: messageStillNotMet, unmet: absent.unmet}},
		{"the ServiceAccount has more permissions than the account", []change{byDefault, may(rule("", "pods", "get"), rule("apps", "deployments", "*"), rule("operators.coreos.com", "clusterserviceversions", "*")),
			with(serviceAccount("demo")), permitted("pods", "secrets")}, effect{phase: phaseFailed, reason: reasonNoRetry}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, c := range row.given {
				c(w)
			}
			got := w.settle()
			require.Equal(t, []any{row.want.phase, row.want.reason}, []any{got.phase, got.reason}, got.message)
			require.False(t, provides(got.writes), got.writes)
			if row.want.message != "" {
				require.Equal(t, row.want.message, got.message)
				require.Equal(t, row.want.unmet, got.unmet)
			}
			if row.want.reason == reasonNoRetry {
				require.Contains(t, got.message, `may not run as ServiceAccount "demo"`)
				require.False(t, w.Has(deploymentOf("demo")))
			}
		})
	}
}

func TestOtherCSVsAreProvidedFor(t *testing.T) {
	t.Parallel()
	for name, given := range map[string][]change{
		"of an InstallPlan":                       {byDefault, planned},
		"of a user, in a group with an account":   {},
		"as above, although there is a default":   {byDefault, with(group("og", "acct", "t1"))},
		"of an InstallPlan, with its own account": {planned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, c := range given {
				c(w)
			}
			got := w.settle()
			require.Equal(t, phaseInstalling, got.phase, got.message)
			require.True(t, provides(got.writes), got.writes)
		})
	}
}

// What an account provided for a CSV remains when the OperatorGroup no longer names the account, and roles in namespaces that
// are no longer targets are still deleted.
func TestWhatWasProvidedRemainsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	targets("t1", "t2")(w)
	installed(w)
	byDefault(w)
	restarted(w)
	w.settle()
	available("demo")(w)
	require.Equal(t, phaseSucceeded, w.settle().phase)
	require.True(t, w.Has(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo"}}))
	require.NotEmpty(t, w.roles("t1"))
	require.Empty(t, w.roles("t2"))

	withoutRoles(w)
	got := w.settle()
	require.Equal(t, phaseFailed, got.phase, got.message)
	require.False(t, provides(got.writes), got.writes)
	require.True(t, w.Has(deploymentOf("demo")))
}
