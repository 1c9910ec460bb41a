package e2e

import (
	"bytes"
	"encoding/json"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/cmd/kubectl-remit/status"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// statusOf runs "kubectl remit status" and returns its standard output and standard error.
func statusOf(t *testing.T, args ...string) (out, notes string, err error) {
	t.Helper()
	cmd := status.NewCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig="+cluster.Kubeconfig))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestStatusReportsWhatIsBlockedAndWhatIsNotNeeded(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	out, _, err := statusOf(t, "-n", tn.Namespace)
	require.Error(t, err)
	require.Contains(t, out, "Namespace "+tn.Namespace+" has no OperatorGroup\n")

	tn.Group(env.AccountName, tn.Namespace)
	message := tn.PermissionsMissing()
	tn.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, tn.Get("group", og))
		assert.NotEmpty(c, og.Status.Namespaces)
	})
	out, notes, err := statusOf(t, "-n", tn.Namespace)
	require.Error(t, err)
	require.Empty(t, err.Error(), "the output must be complete")
	require.Empty(t, notes)
	require.Contains(t, out, "OperatorGroup "+tn.Namespace+"/group\n  Account: ServiceAccount "+tn.Account.String()+" (exists: yes, enrolled: yes, usable: yes)\n"+
		"  Targets: "+tn.Namespace+"\n  Installed: nothing\n  Blocked:\n    Subscription "+bundle.Package+": PermissionsMissing: AccountLacksPermissions\n"+
		"      ServiceAccount "+tn.Account.String()+" is missing ")
	require.NotContains(t, out, "kind: Role")
	require.Contains(t, out, "Permissions that no install needs: nothing\n")
	require.Contains(t, out, "Permissions that the account shares through its groups: ClusterRoleBinding system:basic-user, ")

	tn.Paste(message)
	tn.Succeeded(bundle.CSV)
	out, _, err = statusOf(t, "-n", tn.Namespace)
	require.NoError(t, err)
	require.Contains(t, out, "  Installed:\n    "+bundle.CSV+": Succeeded\n  Blocked: nothing\n  Permissions that no install needs: nothing\n", "all permissions that were reported as missing must be needed")

	surplus := rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}
	wide := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}
	otherNamespace := tn.Other(nil)
	tn.Grant(tn.Namespace, surplus, wide)
	tn.Grant(otherNamespace, surplus)
	tn.Grant(rbac.ClusterScope, surplus)
	out, _, err = statusOf(t, "-n", tn.Namespace, "-o", "json")
	require.NoError(t, err)
	var r status.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Len(t, r.OperatorGroups, 1)
	require.Len(t, r.OperatorGroups[0].Unneeded.Excess, 3)
	for i, scope := range []string{rbac.ClusterScope, tn.Namespace, otherNamespace} {
		e := r.OperatorGroups[0].Unneeded.Excess[i]
		require.Equal(t, scope, e.Namespace)
		require.Equal(t, []rbacv1.PolicyRule{surplus}, e.Unused)
		require.Equal(t, scope == tn.Namespace, len(e.Wider) == 1)
	}
	require.Equal(t, []rbacv1.PolicyRule{wide}, r.OperatorGroups[0].Unneeded.Excess[1].Wider)
}

func TestStatusReportsWhatItsUserMayNotRead(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	tn.GroupSays("group", "AccountUsable", "True", "Enrolled", "")
	user := "viewer-of-" + tn.Namespace
	groups := rbacv1.PolicyRule{APIGroups: []string{operatorsv1.GroupVersion.Group}, Resources: []string{"operatorgroups"}, Verbs: []string{"list"}}
	tn.Create(&rbacv1.Role{ObjectMeta: tn.Meta("viewer"), Rules: []rbacv1.PolicyRule{groups}})
	tn.Create(&rbacv1.RoleBinding{ObjectMeta: tn.Meta("viewer"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}})

	var out, notes string
	require.Eventually(t, func() bool {
		var err error
		out, notes, err = statusOf(t, "-n", tn.Namespace, "--as", user)
		return err == nil
	}, env.Patience, env.Patience/100)
	require.Contains(t, out, "(exists: unknown, enrolled: unknown, usable: yes)")
	require.NotContains(t, out, "Permissions that no install needs")
	for _, resource := range []string{"subscriptions", "installplans", "clusterserviceversions", "serviceaccounts", "clusterroles"} {
		require.Contains(t, notes, `resource "`+resource+`"`)
	}

	_, _, err := statusOf(t, "-A", "--as", user)
	require.ErrorContains(t, err, "list OperatorGroups")
	_, _, err = statusOf(t, "-A", "-n", tn.Namespace)
	require.ErrorContains(t, err, "mutually exclusive")
}

func TestStatusOfAnEmptyNamespace(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	out, notes, err := statusOf(t, "-n", tn.Namespace)
	require.NoError(t, err)
	require.Empty(t, out)
	require.Equal(t, "No OperatorGroups, Subscriptions or ClusterExtensions found in namespace \""+tn.Namespace+"\".\n", notes)

	out, _, _ = statusOf(t, "-A", "-o", "yaml")
	require.Contains(t, out, "operatorGroups:")
}
