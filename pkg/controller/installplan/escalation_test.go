package installplan

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The condition PermissionsMissing of the Subscription has the same message.
func TestWarnsAboutEscalationInTheStatusAndOnceInAnEvent(t *testing.T) {
	const want = `Warning: the install grants permissions with which an operator can obtain more permissions than ServiceAccount ns/acct has: "bind" on clusterroles (grant the rules of Role ns/x).`
	bind := []rbacv1.PolicyRule{{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}}}
	for name, permissions := range map[string]rbac.Permissions{"held": {Rules: bind}, "missing": {}} {
		s, recorder, _ := newRun(operatorsv1alpha1.InstallPlanPhaseInstalling)
		s.saved = s.plan.DeepCopy()
		s.findings = preflight.Examine(scoped.Account{Namespace: "ns", Name: "acct"}.Identity(),
			[]preflight.Need{{Namespace: "ns", Granted: true, Rules: bind, Cause: "grant the rules of Role ns/x"}},
			func(string) rbac.Permissions { return permissions })
		s.setFindings()
		c := s.plan.Status.GetCondition(typePermissionsMissing)
		require.Equal(t, name == "missing", c.Status == corev1.ConditionTrue)
		require.Contains(t, c.Message, want)
		require.Equal(t, "Warning GrantsEscalation "+want, <-recorder.Events)

		s.saved = s.plan.DeepCopy()
		s.setFindings()
		require.Empty(t, recorder.Events, "the status contains the warning already")
	}
}
