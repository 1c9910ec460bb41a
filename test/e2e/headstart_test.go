package e2e

import (
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

func TestAFreshInstallTakesOneToken(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Succeeded(bundle.CSV)
	tokens, err := cluster.Audited(t.Context(), func(e audit.Event) bool {
		return e.Object != nil && e.Object.Namespace == tn.Namespace && e.Object.Name == env.AccountName && e.Object.Subresource == "token"
	})
	require.NoError(t, err)
	require.Len(t, tokens, 1, "%v", tokens)
	for _, e := range tn.Writes() {
		require.True(t, strings.HasPrefix(e.UserAgent, names.UserAgentCatalog), "%s: %s", e.UserAgent, e)
	}
}

func TestTheDeploymentsWaitForRequirements(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogRequiring)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Complete()
	tn.Eventually(func(c *assert.CollectT) {
		csv := tn.CSV(c, bundle.CSV)
		assert.Equal(c, operatorsv1alpha1.CSVReasonRequirementsNotMet, csv.Status.Reason, csv.Status.Message)
	})
	require.True(t, apierrors.IsNotFound(tn.Get("sample-operator", &appsv1.Deployment{})))

	tn.Create(env.CRD("wanted", "requiring.remit.dev", "Wanted"))
	tn.Succeeded(bundle.CSV)
}
