package escape

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/escape/forge"
)

const laterCSV = probe + ".v2.0.0"

// later is the next version, to be changed.
func later() forge.CSV { return forge.NewCSV(laterCSV).Set(probeCSV, "spec", "replaces") }

// upgrades are those that a person makes: ClusterServiceVersions by hand. Those by a Subscription come with
// it.
func upgrades() []row {
	return []row{
		{number: "98", title: "a second version that asks for more than the account holds", holds: p0(), play: func(s *scene) {
			mallory := s.firstVersion()
			before := &appsv1.Deployment{}
			require.NoError(s.T, s.Get(forge.Deployment, before))
			require.NoError(s.T, s.apply(mallory, later().ClusterPermissions(forge.Entry("operator", all)).Object))
			s.Eventually(func(c *assert.CollectT) {
				csv := s.CSV(c, laterCSV)
				assert.Equal(c, pending, csv.Status.Phase)
				assert.Contains(c, statusText(c, csv.Status), "Policy rule not satisfied")
			})
			s.untouched(before)
			for _, b := range s.bindings() {
				require.NotEqual(s.T, laterCSV, b.Labels[names.LabelOwner], "no part of the second version's roles: %s", b.Name)
			}
			require.Nil(s.T, s.CSV(s.T, probeCSV).DeletionTimestamp)
		}},
		{number: "100", title: "a second version with other rights for the same ServiceAccount", holds: p0(), play: func(s *scene) {
			mallory := s.firstVersion()
			require.NoError(s.T, s.apply(mallory, later().Permissions(
				forge.Entry("operator", `{apiGroups: [""], resources: [secrets], verbs: [get]}`)).Object))
			s.Eventually(func(c *assert.CollectT) {
				assert.Equal(c, succeeded, s.CSV(c, laterCSV).Status.Phase)
				assert.True(c, apierrors.IsNotFound(s.Get(probeCSV, &operatorsv1alpha1.ClusterServiceVersion{})))
				roles := &rbacv1.RoleList{}
				assert.NoError(c, cluster.Client.List(s.T.Context(), roles, client.InNamespace(s.Namespace)))
				for _, role := range roles.Items {
					assert.NotEqual(c, probeCSV, role.Labels[names.LabelOwner], "what the first version had is gone")
				}
			})
		}},
		{number: "77a", title: "a CSV that replaces somebody else's under its mark, by whom may not delete it", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: probe, Namespace: s.Namespace}, CSV: "attacker.v9.0.0"}
			labels := map[string]any{}
			for key, value := range owner.Labels() {
				labels[key] = value
			}
			attacker := forge.NewCSV("attacker.v9.0.0").Apart("attacker").Set(probeCSV, "spec", "replaces").Set(labels, "metadata", "labels")
			require.NoError(s.T, s.apply(s.author("clusterserviceversions", "create"), attacker.Object))
			s.Eventually(func(c *assert.CollectT) { assert.Equal(c, succeeded, s.CSV(c, "attacker.v9.0.0").Status.Phase) })
			s.settle()
			after := s.CSV(s.T, probeCSV)
			require.Equal(s.T, victim.UID, after.UID)
			require.Nil(s.T, after.DeletionTimestamp)
			require.NoError(s.T, s.Get(forge.Deployment, &appsv1.Deployment{}))
		}},
	}
}

// firstVersion has a tenant make the harmless CSV, and waits until it is installed.
func (s *scene) firstVersion() client.Client {
	s.T.Helper()
	s.group(s.Namespace)
	mallory := s.mallory()
	require.NoError(s.T, s.apply(mallory, csv().Object))
	s.csvSays(succeeded)
	return mallory
}
