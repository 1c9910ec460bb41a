package e2e

import (
	"fmt"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// operatorOf returns the Operator of a package in the tenant's namespace.
func operatorOf(t assert.TestingT, tn *env.Tenant, pkg string) *operatorsv1.Operator {
	out := &operatorsv1.Operator{}
	assert.NoError(t, cluster.Client.Get(tn.T.Context(), client.ObjectKey{Name: pkg + "." + tn.Namespace}, out))
	if out.Status.Components == nil {
		out.Status.Components = &operatorsv1.Components{}
	}
	return out
}

// refs returns the names of an Operator's components, by kind.
func refs(operator *operatorsv1.Operator) map[string][]string {
	out := map[string][]string{}
	for _, r := range operator.Status.Components.Refs {
		out[r.Kind] = append(out[r.Kind], r.Name)
	}
	return out
}

// phases returns the conditions of the ClusterServiceVersions of an Operator.
func phases(operator *operatorsv1.Operator) (out []string) {
	for _, r := range operator.Status.Components.Refs {
		for _, c := range r.Conditions {
			if r.Kind == operatorsv1alpha1.ClusterServiceVersionKind {
				out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
			}
		}
	}
	return out
}

// The Operator follows an upgrade, lists nothing that a user labeled, and is deleted together with the last component.
func TestAnOperatorListsItsComponentsAsLongAsThereAreAny(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	var first *operatorsv1.Operator
	tn.Eventually(func(c *assert.CollectT) {
		first = operatorOf(c, tn, "a")
		got := refs(first)
		assert.Equal(c, []string{"a"}, got["Deployment"])
		assert.Equal(c, []string{"a"}, got["ServiceAccount"])
		assert.Equal(c, []string{"a.v1.0.0"}, got["OperatorCondition"])
		assert.Len(c, got["InstallPlan"], 1)
		assert.Len(c, got["Subscription"], 1)
		assert.NotEmpty(c, got["Role"])
		assert.Equal(c, []string{"a.v1.0.0"}, got["ClusterServiceVersion"])
		assert.Equal(c, []string{"Succeeded=True InstallSucceeded"}, phases(first))
	})
	selector := first.Status.Components.LabelSelector.MatchExpressions
	require.Len(t, selector, 1)
	labeled := &appsv1.DeploymentList{}
	require.NoError(t, cluster.Client.List(t.Context(), labeled, client.InNamespace(tn.Namespace), client.HasLabels{selector[0].Key}))
	require.Len(t, labeled.Items, 1)

	forged := &corev1.ServiceAccount{ObjectMeta: tn.Meta("forged")}
	forged.Labels = labeled.Items[0].Labels
	forged.Annotations = map[string]string{names.AnnotationProof: labeled.Items[0].Annotations[names.AnnotationProof]}
	tn.Create(forged)
	tn.Publish("catalog", releasesV1, releasesV2)
	tn.Installed("a.v2.0.0")
	tn.Eventually(func(c *assert.CollectT) {
		got := refs(operatorOf(c, tn, "a"))
		assert.Equal(c, []string{"a.v2.0.0"}, got["ClusterServiceVersion"])
		assert.Equal(c, []string{"a.v2.0.0"}, got["OperatorCondition"])
		assert.Equal(c, []string{"a"}, got["ServiceAccount"])
	})
	require.Equal(t, first.UID, operatorOf(t, tn, "a").UID)

	require.NoError(t, cluster.Client.Delete(t.Context(), operatorOf(t, tn, "a")))
	tn.Eventually(func(c *assert.CollectT) {
		again := operatorOf(c, tn, "a")
		assert.NotEqual(c, first.UID, again.UID)
		assert.Equal(c, []string{"a.v2.0.0"}, refs(again)["ClusterServiceVersion"])
	})

	for _, sub := range subscriptions(t, tn) {
		require.NoError(t, cluster.Client.Delete(t.Context(), sub))
	}
	tn.Eventually(func(c *assert.CollectT) {
		got := refs(operatorOf(c, tn, "a"))
		assert.Empty(c, got["Subscription"])
		assert.Equal(c, []string{"a.v2.0.0"}, got["ClusterServiceVersion"])
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), tn.CSV(t, "a.v2.0.0")))
	tn.Eventually(func(c *assert.CollectT) {
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "a." + tn.Namespace}, &operatorsv1.Operator{})
		assert.True(c, apierrors.IsNotFound(err), "%v", err)
	})
}
