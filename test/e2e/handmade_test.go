package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/test/env"
)

// The Deployment keeps its UID, so it was taken over rather than recreated.
func TestAVersionThatAUserCreatesTakesOverTheDeploymentOfOneWithAnotherName(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	tn.Group(env.AccountName, tn.Namespace)
	version := func(name, replaces string) {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		require.NoError(t, yaml.Unmarshal([]byte(env.PlainCSV("plain", "")), csv))
		csv.ObjectMeta = tn.Meta(name)
		csv.Spec.Replaces = replaces
		csv.Spec.InstallModes = []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
		tn.Create(csv)
		tn.Eventually(func(c *assert.CollectT) {
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, tn.CSV(c, name).Status.Phase)
		})
	}
	version("first", "")
	before := &appsv1.Deployment{}
	require.NoError(t, tn.Get("plain", before))

	version("second", "first")
	tn.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(tn.Get("first", &operatorsv1alpha1.ClusterServiceVersion{})))
	})
	version("third", "second")
	after := &appsv1.Deployment{}
	require.NoError(t, tn.Get("plain", after))
	require.Equal(t, before.UID, after.UID)
	require.Equal(t, "third", after.Labels["olm.owner"])
}
