package author

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// writesStatus allows Remit's programs to write the status of all kinds.
var writesStatus = rbacv1.PolicyRule{
	APIGroups: []string{"operators.coreos.com"}, Resources: []string{"clusterserviceversions/status", "installplans/status", "subscriptions/status"}, Verbs: []string{"patch"},
}

func patchOf(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }

// Remit learns from the status whether a version waits for its predecessor, whether a plan is finished, and which version runs with
// the configuration of a Subscription.
func TestAStatusThatRemitReadsIsWrittenByAuthors(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.writesCSVs(true, s.carol)
		s.writesSubscriptions(true)
		s.writes("installplans", func() client.Object { return s.plan("probe") }, noGroupForPlan, true)
		csv, sub, plan := s.csv("probe"), s.subscription("probe"), s.plan("probe")
		for _, obj := range []client.Object{csv, sub, plan} {
			require.NoError(s, s.alice.Create(s.Context(), obj)) // without the label remit.dev/any-account
		}
		put := func(c client.Client, obj client.Object, body string) error {
			return c.Status().Patch(s.Context(), obj.DeepCopyObject().(client.Object), patchOf(body))
		}
		for _, row := range []struct {
			obj              client.Object
			remit            string
			first, next, any string
		}{
			{csv, "remit-olm", `{"status":{"phase":"Pending"}}`, `{"status":{"phase":"InstallReady"}}`, `{"status":{"message":"x","conditions":[{"phase":"Pending"}]}}`},
			{sub, "remit-catalog", `{"status":{"lastUpdated":"2026-01-01T00:00:00Z","installedCSV":"probe"}}`, `{"status":{"installedCSV":null}}`, `{"status":{"reason":"x"}}`},
			{sub, "remit-catalog", `{"status":{"currentCSV":"probe"}}`, `{"status":{"currentCSV":null}}`, `{"status":{"reason":"y"}}`},
			{
				plan, "remit-catalog", `{"status":{"catalogSources":[],"phase":"Complete"}}`,
				`{"status":{"phase":"Installing"}}`, `{"status":{"message":"x"}}`,
			},
		} {
			writer := scoped.Username("remit", row.remit)
			s.grant(writer, writesStatus)
			s.eventually(func(c *assert.CollectT) { assert.NoError(c, put(s.cluster.As(s.T, writer), row.obj, row.first)) })
			require.NoError(s, put(s.carol, row.obj, row.any))
			require.NoError(s, put(s.cluster.As(s.T, writer), row.obj, row.any))
			s.deniedCSV(put(s.carol, row.obj, row.next), "may not impersonate ServiceAccount <ns>/installer")
			require.NoError(s, put(s.alice, row.obj, row.next))
			require.NoError(s, put(s.cluster.As(s.T, writer), row.obj, row.first))
			require.NoError(s, put(s.admin, row.obj, row.next))
		}
		waiting := s.plan("waiting")
		require.NoError(s, s.alice.Create(s.Context(), waiting))
		require.NoError(s, put(s.carol, waiting, `{"status":{"catalogSources":[],"phase":"RequiresApproval"}}`))
		require.NoError(s, put(s.carol, waiting, `{"status":{"phase":"`+string(operatorsv1alpha1.InstallPlanPhaseFailed)+`"}}`), "it only stops the plan")
	})
}
