package escape

import (
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	depCSV      = "dep.v1.0.0"
	depLaterCSV = "dep.v2.0.0"
	needsDep    = " needs=dep:>=1.0.0"
)

func dependencies() []row {
	return []row{
		{number: "97", title: "a Manual Subscription to an operator that needs a package of another catalog", holds: p0(), play: func(s *scene) {
			first := s.needing()
			s.settle()
			s.nothingWritten()
			s.approve(cluster.Client, first)
			s.running(depCSV, probeCSV)

			s.settle()
			written := len(s.writes())
			s.Publish("other", depCSV+" stable", depLaterCSV+" stable replaces="+depCSV)
			later := s.awaiting(depLaterCSV)
			s.settle()
			require.Len(s.T, s.writes(), written)
			s.running(depCSV, probeCSV)
			s.absent(&operatorsv1alpha1.ClusterServiceVersion{}, depLaterCSV)
			s.approve(cluster.Client, later)
			s.running(depLaterCSV, probeCSV)
		}},
		{number: "97a", title: "an additional Automatic Subscription to an operator that needs the same package", holds: p0(), play: func(s *scene) {
			s.needing()
			s.Subscribe("catalog", "beside", forge.Channel)
			together := s.awaiting("beside.v1.0.0", depCSV, probeCSV)
			s.settle()
			s.nothingWritten()
			s.approve(cluster.Client, together)
			s.running("beside.v1.0.0", depCSV, probeCSV)
		}},
	}
}

// needing creates a Manual Subscription to an operator that needs a package from another catalog and returns the plan
// for both once it waits for approval. The Subscription that Remit creates for the dependency is also Manual.
func (s *scene) needing() *operatorsv1alpha1.InstallPlan {
	s.T.Helper()
	s.group(s.Namespace)
	s.Publish("catalog", probeCSV+" stable"+needsDep, "beside.v1.0.0 stable"+needsDep)
	s.Publish("other", depCSV+" stable")
	s.subscribe(manual)
	ip := s.awaiting(depCSV, probeCSV)
	subs := &operatorsv1alpha1.SubscriptionList{}
	s.list(subs)
	i := slices.IndexFunc(subs.Items, func(x operatorsv1alpha1.Subscription) bool {
		return x.Annotations[names.AnnotationGeneratedBy] == probe
	})
	require.GreaterOrEqual(s.T, i, 0, "no Subscription was created for the dependency")
	require.Equal(s.T, "other", subs.Items[i].Spec.CatalogSource)
	require.Equal(s.T, operatorsv1alpha1.ApprovalManual, subs.Items[i].Spec.InstallPlanApproval)
	return ip
}

// awaiting returns the plan for these versions once it waits for approval.
func (s *scene) awaiting(versions ...string) *operatorsv1alpha1.InstallPlan {
	s.T.Helper()
	var ip *operatorsv1alpha1.InstallPlan
	s.Eventually(func(c *assert.CollectT) {
		plans := &operatorsv1alpha1.InstallPlanList{}
		assert.NoError(c, cluster.Client.List(s.T.Context(), plans, client.InNamespace(s.Namespace)))
		i := slices.IndexFunc(plans.Items, func(x operatorsv1alpha1.InstallPlan) bool {
			return slices.Equal(x.Spec.ClusterServiceVersionNames, versions)
		})
		if !assert.GreaterOrEqual(c, i, 0, "no plan for %v", versions) {
			return
		}
		ip = &plans.Items[i]
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, ip.Status.Phase)
		assert.NotEmpty(c, ip.Status.Plan)
	})
	require.Equal(s.T, operatorsv1alpha1.ApprovalManual, ip.Spec.Approval)
	require.False(s.T, ip.Spec.Approved)
	return ip
}

// running waits until the namespace has exactly these CSVs and all have succeeded.
func (s *scene) running(csvs ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		list := &operatorsv1alpha1.ClusterServiceVersionList{}
		assert.NoError(c, cluster.Client.List(s.T.Context(), list, client.InNamespace(s.Namespace)))
		var found []string
		for i := range list.Items {
			assert.Equal(c, succeeded, list.Items[i].Status.Phase, list.Items[i].Status.Message)
			found = append(found, list.Items[i].Name)
		}
		assert.ElementsMatch(c, csvs, found)
	})
}
