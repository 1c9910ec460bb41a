package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// headStarts is the number of installs of which at least one must request only one token. On a slow machine, the second program
// may take over an install.
const headStarts = 3

func TestANewInstallRequestsOneToken(t *testing.T) {
	bounded(t)
	t.Parallel()
	var more []string
	for range headStarts {
		tn := subscribed(t, catalogSample)
		grantSample(tn, tn.Namespace)
		tn.Group(env.AccountName, tn.Namespace)
		tn.Succeeded(bundle.CSV)
		unexpected := requestsBeyondOneToken(tn)
		if len(unexpected) == 0 {
			return
		}
		more = append(more, unexpected...)
	}
	require.Empty(t, more, "each of %d installs had more requests", headStarts)
}

// requestsBeyondOneToken lists the requests for tokens if there is more than one, and the writes of programs other than
// remit-catalog. No program may obtain two tokens.
func requestsBeyondOneToken(tn *env.Tenant) []string {
	tn.T.Helper()
	tokens, err := cluster.Audited(tn.T.Context(), func(e audit.Event) bool {
		return e.Object != nil && e.Object.Namespace == tn.Namespace && e.Object.Name == env.AccountName && e.Object.Subresource == "token"
	})
	require.NoError(tn.T, err)
	require.NotEmpty(tn.T, tokens)
	obtained := map[string]bool{}
	for _, e := range tokens {
		if e.Response.Code == http.StatusCreated {
			require.False(tn.T, obtained[e.User.Username], "%v", tokens)
			obtained[e.User.Username] = true
		}
	}
	var out []string
	if len(tokens) > 1 {
		out = append(out, fmt.Sprint(tokens))
	}
	for _, e := range tn.Writes() {
		if !strings.HasPrefix(e.UserAgent, names.UserAgentCatalog) {
			out = append(out, fmt.Sprintf("%s: %s", e.UserAgent, e))
		}
	}
	return out
}

func TestWaitsForAKindThatNoCatalogOffers(t *testing.T) {
	t.Parallel()
	tn := waitingForWanted(t)

	// The Deployments also wait if the kind's CRD is deleted before the plan is executed.
	crd := env.CRD("wanted", "requiring.remit.dev", "Wanted")
	tn.Create(crd)
	tn.Eventually(func(c *assert.CollectT) { assert.NotEmpty(c, tn.Plan(c).Status.Plan) })
	tn.RemoveCRD(crd)
	waitingForWanted(t) // by then, the cache no longer contains the kind
	approve(t, tn)
	tn.Complete()
	tn.Eventually(func(c *assert.CollectT) {
		csv := tn.CSV(c, bundle.CSV)
		assert.Equal(c, operatorsv1alpha1.CSVReasonRequirementsNotMet, csv.Status.Reason, csv.Status.Message)
	})
	require.True(t, apierrors.IsNotFound(tn.Get("sample-operator", &appsv1.Deployment{})))

	tn.Create(env.CRD("wanted", "requiring.remit.dev", "Wanted"))
	tn.Succeeded(bundle.CSV)
}

// waitingForWanted returns a tenant whose Subscription waits for the kind Wanted, and whose InstallPlans need approval.
func waitingForWanted(t *testing.T) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(catalogRequiring))
	subscribe(tn, func(s *operatorsv1alpha1.SubscriptionSpec) { s.InstallPlanApproval = operatorsv1alpha1.ApprovalManual })
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionResolutionFailed, resolver.ConstraintsNotSatisfiable,
		"requires an operator providing an API with group: requiring.remit.dev, version: v1, kind: Wanted. No catalog")
	return tn
}
