package authorizer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const image = "catalogs.test/sample"

var (
	cluster *env.Cluster
	second  *webhook
)

func TestMain(m *testing.M) {
	second = newWebhook()
	code := env.Suite{Cluster: &cluster, Options: options}.Run(m)
	second.Close()
	os.Exit(code)
}

func options(dir string) (env.Options, error) {
	catalog := filepath.Join(dir, "sample")
	err := os.CopyFS(catalog, bundle.FS())
	return env.Options{Catalogs: map[string]string{image: catalog}, Authorizer: second.URL}, err
}

func username(tn *env.Tenant) string { return scoped.Username(tn.Account.Namespace, tn.Account.Name) }

// subscribed returns a tenant with a Subscription to the sample. The tenant's account has no RBAC permissions; the
// webhook decides the account's requests according to o.
func subscribed(t *testing.T, o opinion) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	second.about(tn, o)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)
	return tn
}

// reviews returns the number of SubjectAccessReviews that Remit's programs have sent. The audit log does not contain request
// bodies, so the reviews for different tenants cannot be distinguished. A test that counts reviews must not run in parallel.
func reviews(t *testing.T) int {
	t.Helper()
	asked, err := cluster.Audited(t.Context(), func(e audit.Event) bool {
		return cluster.ControllerIdentities().Is(e) && e.Object != nil && e.Object.Resource == "subjectaccessreviews"
	})
	require.NoError(t, err)
	return len(asked)
}

// Any authorizer can allow a request, but only RBAC determines which permissions a user can grant. The API server
// behaves the same way (row 63 of test/differential/rows).
func TestAnotherAuthorizerAllowsRequestsAndGrantsNothing(t *testing.T) {
	tn := subscribed(t, func(a *authorizationv1.ResourceAttributes) (bool, bool) {
		return a != nil && a.Verb != "escalate" && a.Verb != "bind", false
	})
	message := tn.PermissionsMissing()
	require.Contains(t, message, `cannot get resource "greetings"`, "the operator's own Role")
	require.NotContains(t, message, "clusterserviceversions", "the other authorizer allows it")
	require.NotContains(t, message, "serviceaccounts")
	var d preflight.Document
	decode(t, tn.Report().Data[preflight.FileReport], &d)
	require.NotEmpty(t, d.Allowed)
	for _, s := range d.Allowed {
		for _, rule := range s.Rules {
			require.Equal(t, []preflight.Source{preflight.SourceReview}, rule.Sources)
		}
	}
	tn.NothingWritten()

	c := cluster.As(t, username(tn), rbac.ServiceAccount(tn.Namespace, "").Groups...)
	role := &rbacv1.Role{ObjectMeta: tn.Meta("r"), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"sample.remit.dev"}, Resources: []string{"greetings"}, Verbs: []string{"get"}}}}
	require.ErrorContains(t, c.Create(t.Context(), role, client.DryRunAll), "is attempting to grant RBAC permissions not currently held")

	tn.Paste(message)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
}

func TestEscalateAndBindMayComeFromAnotherAuthorizer(t *testing.T) {
	tn := subscribed(t, allows)
	tn.Complete()
}

func TestAnUndecidedReviewBlocksNothing(t *testing.T) {
	tn := subscribed(t, breaks)
	tn.Eventually(func(c *assert.CollectT) {
		for _, message := range []string{
			conditionOf(c, tn, names.ConditionPermissionsMissing, corev1.ConditionUnknown, names.ReasonPermissionsUndecided),
			tn.Subscription(c).Status.GetCondition(names.ConditionPermissionsMissing).Message,
		} {
			assert.Contains(c, message, "the API server decides on each write.")
		}
	})
	tn.PlanSays("InstallComponentFailed", "retrying execution due to error")
	for _, e := range tn.Writes() {
		require.NotEqual(t, 2, e.Response.Code/100, "%s", e)
	}

	second.about(tn, allows)
	tn.Complete()
}

func TestABlockedPlanAsksOnce(t *testing.T) {
	tn := subscribed(t, nil)
	tn.PermissionsMissing()
	asked := reviews(t)
	require.Positive(t, asked)

	// An edit wakes the plan, but the missing permissions have not changed.
	plan := tn.Plan(t)
	before := plan.DeepCopy()
	plan.Labels = map[string]string{"look": "again"}
	require.NoError(t, cluster.Client.Patch(t.Context(), plan, client.MergeFrom(before)))
	// Granting one rule causes one more round of reviews and shortens the message.
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "create", "patch"}})
	tn.Eventually(func(c *assert.CollectT) {
		assert.NotContains(c, conditionOf(c, tn, names.ConditionPermissionsMissing, corev1.ConditionTrue, names.ReasonAccountLacksPermissions), `"services"`)
	})
	require.LessOrEqual(t, reviews(t), 2*asked-3, "the second round asks about three fewer atoms")
}
