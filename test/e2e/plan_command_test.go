package e2e

import (
	"encoding/json"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// planShow runs "kubectl remit plan show", asserts the exit code, and returns standard output and standard error.
func planShow(t *testing.T, code int, args ...string) (out, notes string) {
	t.Helper()
	out, notes, got := cluster.Remit(t, append([]string{"plan", "show"}, args...)...)
	require.Equal(t, code, got, "%s\n%s", out, notes)
	return out, notes
}

// largePlan returns a tenant whose plan for a bundle of more than 64 KiB waits for approval.
func largePlan(t *testing.T) (*env.Tenant, *operatorsv1alpha1.InstallPlan) {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(catalogLarge))
	subscribe(tn, func(s *operatorsv1alpha1.SubscriptionSpec) { s.InstallPlanApproval = operatorsv1alpha1.ApprovalManual })
	var ip *operatorsv1alpha1.InstallPlan
	tn.Eventually(func(c *assert.CollectT) {
		ip = tn.Plan(c)
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, ip.Status.Phase)
		assert.NotEmpty(c, ip.Status.Plan)
		assert.Equal(c, corev1.ConditionTrue, ip.Status.GetCondition(names.ConditionPermissionsMissing).Status)
	})
	return tn, ip
}

func TestShowsPlansOfAnySizeForApproval(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn, ip := largePlan(t)
	for _, step := range ip.Status.Plan {
		require.Contains(t, step.Resource.Manifest, `"show":"kubectl remit plan show `+ip.Name+` -n `+tn.Namespace+`"`)
	}
	out, notes := planShow(t, missing, ip.Name, "-n", tn.Namespace)
	require.Empty(t, notes)
	require.Contains(t, out, "Permissions that the plan grants:\n  to ServiceAccount "+tn.Namespace+"/sample-operator\n    in namespace "+tn.Namespace+"\n")
	require.Contains(t, out, `{apiGroups: ["sample.remit.dev"], resources: ["greetings"], verbs: ["get", "list", "watch"]}`)
	require.Contains(t, out, "ConfigMap "+tn.Namespace+"/large\n")
	require.Contains(t, out, "Missing permissions and refused objects, according to the plan's status:\n  ServiceAccount "+tn.Account.String()+" is missing ")
	require.Contains(t, out, "kubectl patch installplan "+ip.Name+" -n "+tn.Namespace)

	tn.GrantMissing() // another test may have installed the sample's CustomResourceDefinition in the meantime
	approve(t, tn)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	out, _ = planShow(t, passed, ip.Name, "-n", tn.Namespace)
	require.NotContains(t, out, "Missing")
	require.NotContains(t, out, "approve")

	// The plan shows exactly the objects that were written.
	out, _ = planShow(t, passed, ip.Name, "-n", tn.Namespace, "-o", "json")
	var list struct{ Items []rbacv1.Role }
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	written := &rbacv1.Role{}
	require.Equal(t, "Role", list.Items[0].Kind, "permissions must come first")
	require.NoError(t, tn.Get(list.Items[0].Name, written))
	require.Equal(t, written.Rules, list.Items[0].Rules)

	// "kubectl remit status" reports rules that the account does not need.
	surplus := rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}
	tn.Grant(tn.Namespace, surplus)
	status, _, err := statusOf(t, "-n", tn.Namespace)
	require.NoError(t, err)
	require.Contains(t, status, "not needed:\n        {apiGroups: [\"batch\"], resources: [\"jobs\"], verbs: [\"create\"]}\n")
	require.NotContains(t, status, "only partly needed")
}

// A user who can change an InstallPlan can change its embedded content. Changed content is neither shown nor written.
func TestForgedContentIsNeitherShownNorWritten(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn, ip := largePlan(t)
	other, another := awaitingApproval(t)
	require.NotEmpty(t, another.Annotations[names.AnnotationContent])
	_, _ = planShow(t, passed, another.Name, "-n", other.Namespace)

	before := ip.DeepCopy()
	ip.Annotations[names.AnnotationContent] = another.Annotations[names.AnnotationContent]
	require.NoError(t, cluster.Client.Patch(t.Context(), ip, client.MergeFrom(before)))
	before = ip.DeepCopy()
	ip.Status.Plan[0].Resource.Manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged"}}`
	require.NoError(t, cluster.Client.Status().Patch(t.Context(), ip, client.MergeFrom(before)))
	out, notes := planShow(t, failed, ip.Name, "-n", tn.Namespace)
	require.Empty(t, out)
	require.Contains(t, notes, "error: InstallPlan "+ip.Name+": the stored content does not match the name of the InstallPlan: the InstallPlan was edited")
	_, notes = preflightOf(t, failed, "installplan/"+ip.Name, "-n", tn.Namespace)
	require.Contains(t, notes, "the InstallPlan was edited")
	status, _, err := statusOf(t, "-n", tn.Namespace)
	require.Error(t, err)
	require.Contains(t, status, "cannot determine which permissions of the account are not needed: InstallPlan "+ip.Name+": the stored content does not match")

	// The plan is shown if its own bundle is passed, but not if another bundle is passed.
	out, _ = planShow(t, missing, ip.Name, "-n", tn.Namespace, "--bundle", bundleDir(t, variants[catalogLarge]))
	require.Contains(t, out, "ConfigMap "+tn.Namespace+"/large\n")
	_, notes = planShow(t, failed, ip.Name, "-n", tn.Namespace, "--bundle", bundleDir(t, unchanged))
	require.Contains(t, notes, "but the plan requires digest sha256:")

	// The controller installs the content whose digest is in the plan's name.
	tn.GrantMissing() // another test may have installed the sample's CustomResourceDefinition in the meantime
	approve(t, tn)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	require.NoError(t, tn.Get("large", &corev1.ConfigMap{}))
	require.True(t, apierrors.IsNotFound(tn.Get("forged", &corev1.ConfigMap{})))
}
