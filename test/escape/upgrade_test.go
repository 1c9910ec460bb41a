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

const (
	laterCSV = probe + ".v2.0.0"
	olderCSV = probe + ".v0.9.0"
)

// nextVersion returns the harmless CSV of the next version, which rows modify.
func nextVersion() forge.CSV { return forge.NewCSV(laterCSV).Set(probeCSV, "spec", "replaces") }

// upgrades returns rows about upgrades with manually created ClusterServiceVersions and through Subscriptions.
func upgrades() []row {
	return []row{
		{number: "98", title: "a second version that requests more permissions than the account has", holds: p0(), play: func(s *scene) {
			mallory := s.firstVersion()
			before := &appsv1.Deployment{}
			require.NoError(s.T, s.Get(forge.Deployment, before))
			require.NoError(s.T, s.apply(mallory, nextVersion().ClusterPermissions(forge.Entry("operator", all)).Object))
			s.Eventually(func(c *assert.CollectT) {
				csv := s.CSV(c, laterCSV)
				assert.Equal(c, pending, csv.Status.Phase)
				assert.Contains(c, statusText(c, csv.Status), "Policy rule not satisfied")
			})
			s.untouched(before)
			for _, b := range s.bindings() {
				require.NotEqual(s.T, laterCSV, b.Labels[names.LabelOwner], "a binding of the second version exists: %s", b.Name)
			}
			require.Nil(s.T, s.CSV(s.T, probeCSV).DeletionTimestamp)
		}},
		{number: "100", title: "a second version with other permissions for the same ServiceAccount", holds: p0(), play: func(s *scene) {
			mallory := s.firstVersion()
			require.NoError(s.T, s.apply(mallory, nextVersion().Permissions(
				forge.Entry("operator", `{apiGroups: [""], resources: [secrets], verbs: [get]}`)).Object))
			s.Eventually(func(c *assert.CollectT) {
				assert.Equal(c, succeeded, s.CSV(c, laterCSV).Status.Phase)
				assert.True(c, apierrors.IsNotFound(s.Get(probeCSV, &operatorsv1alpha1.ClusterServiceVersion{})))
				roles := &rbacv1.RoleList{}
				assert.NoError(c, cluster.Client.List(s.T.Context(), roles, client.InNamespace(s.Namespace)))
				for _, role := range roles.Items {
					assert.NotEqual(c, probeCSV, role.Labels[names.LabelOwner], "the objects of the first version must be deleted")
				}
			})
		}},
		{number: "101", title: "a version of another package that claims to replace and skip the installed one", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			other := forge.Of("other", forge.NewCSV("other.v9.0.0").RenameObjects("other").Set("9.0.0", "spec", "version").Set(probeCSV, "spec", "replaces"))
			other.Version, other.Edges = "9.0.0", map[string]any{"replaces": probeCSV, "skips": []any{probeCSV}, "skipRange": "<9.0.0"}
			s.republish(bundleOf(csv()), other)
			s.Subscribe("catalog", "other", forge.Channel)
			s.Eventually(func(c *assert.CollectT) { assert.Equal(c, succeeded, s.CSV(c, "other.v9.0.0").Status.Phase) })
			s.settle()
			s.stays(victim)
		}},
		{number: "101a", title: "an older version that claims to skip the range of the installed one", holds: p0(), play: func(s *scene) {
			s.noWayBack("0.9.0")
		}},
		{number: "101b", title: "an older CSV that claims to skip the range of the installed version and has no version in the catalog", holds: p0(), play: func(s *scene) {
			s.noWayBack(forge.Unversioned)
		}},
		{number: "77a", title: "a CSV with an owner's marks that replaces the owner's CSV, by a user who may not delete that CSV", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: probe, Namespace: s.Namespace}, CSV: "attacker.v9.0.0"}
			labels := map[string]any{}
			for key, value := range owner.Labels() {
				labels[key] = value
			}
			attacker := forge.NewCSV("attacker.v9.0.0").RenameObjects("attacker").Set(probeCSV, "spec", "replaces").Set(labels, "metadata", "labels")
			require.NoError(s.T, s.apply(s.csvAuthor(), attacker.Object))
			s.Eventually(func(c *assert.CollectT) { assert.Equal(c, succeeded, s.CSV(c, "attacker.v9.0.0").Status.Phase) })
			s.settle()
			s.stays(victim)
		}},
	}
}

// noWayBack installs a bundle and then publishes only an older one, which skips the installed version and has the given
// version in the catalog. It asserts that the installed version stays.
func (s *scene) noWayBack(version string) {
	s.T.Helper()
	s.install(bundleOf(csv()))
	victim := s.Succeeded(probeCSV)
	s.Complete()
	s.settle()
	written := len(s.writes())
	older := forge.Of(probe, forge.NewCSV(olderCSV).Set("0.9.0", "spec", "version"))
	older.Version, older.Edges = version, map[string]any{"skipRange": "<2.0.0"}
	s.republish(older)
	s.Eventually(func(c *assert.CollectT) { // the head of the channel differs from the installed version and cannot be reached
		assert.Equal(c, operatorsv1alpha1.SubscriptionState(operatorsv1alpha1.SubscriptionStateUpgradeAvailable), s.Subscription(c).Status.State)
	})
	s.settle()
	s.stays(victim)
	s.absent(&operatorsv1alpha1.ClusterServiceVersion{}, olderCSV)
	s.Complete() // fails if there is a second plan
	require.Len(s.T, s.writes(), written)
}

// stays asserts that a CSV stays installed.
func (s *scene) stays(victim *operatorsv1alpha1.ClusterServiceVersion) {
	s.T.Helper()
	after := s.CSV(s.T, victim.Name)
	require.Equal(s.T, victim.UID, after.UID)
	require.Nil(s.T, after.DeletionTimestamp)
	require.Equal(s.T, succeeded, after.Status.Phase, after.Status.Message)
	require.NoError(s.T, s.Get(forge.Deployment, &appsv1.Deployment{}))
}

// firstVersion creates the harmless CSV as a tenant and waits until it is installed.
func (s *scene) firstVersion() client.Client {
	s.T.Helper()
	s.group(s.Namespace)
	mallory := s.mallory()
	require.NoError(s.T, s.apply(mallory, csv().Object))
	s.csvSays(succeeded)
	return mallory
}
