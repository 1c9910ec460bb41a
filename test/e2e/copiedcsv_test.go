package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// copies is the permission that an account needs for copies of its ClusterServiceVersions.
var copies = rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"clusterserviceversions"}, Verbs: []string{"create"}}

// The target namespace has no OperatorGroup, which must not prevent the copy.
func TestCopiesACSVWhereTheAccountMayCreateIt(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	target, without := tn.Other(nil), tn.Other(nil)
	grantAnywhere(tn)
	tn.Grant(target, copies)
	tn.Group(env.AccountName, tn.Namespace, target, without)
	tn.Complete()
	source := tn.Succeeded(bundle.CSV)

	key := client.ObjectKey{Namespace: target, Name: bundle.CSV}
	copied := &operatorsv1alpha1.ClusterServiceVersion{}
	isCopy := func() {
		t.Helper()
		tn.Eventually(func(c *assert.CollectT) {
			copied = &operatorsv1alpha1.ClusterServiceVersion{}
			if !assert.NoError(c, cluster.Client.Get(t.Context(), key, copied)) {
				return
			}
			assert.Equal(c, tn.Namespace, copied.Labels[names.LabelCopiedFrom])
			assert.Equal(c, source.Spec, copied.Spec)
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, copied.Status.Phase)
			assert.Equal(c, operatorsv1alpha1.CSVReasonCopied, copied.Status.Reason)
			assert.Equal(c, "The operator is running in "+tn.Namespace+" but is managing this namespace", copied.Status.Message)
		})
	}
	isCopy()
	other := client.ObjectKey{Namespace: without, Name: bundle.CSV}
	if !cluster.IsCompat() { // the default account may create ClusterServiceVersions everywhere
		require.True(t, apierrors.IsNotFound(cluster.Client.Get(t.Context(), other, &operatorsv1alpha1.ClusterServiceVersion{})))
	}

	merge := func(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }
	require.NoError(t, cluster.Client.Patch(t.Context(), copied, merge(`{"spec":{"displayName":"changed"}}`)))
	isCopy()
	require.NoError(t, cluster.Client.Status().Patch(t.Context(), copied, merge(`{"status":{"phase":"Failed"}}`)))
	isCopy()
	before := copied.UID
	require.NoError(t, cluster.Client.Patch(t.Context(), copied, merge(`{"metadata":{"annotations":{"olm.operatorNamespace":"elsewhere"}}}`)))
	tn.Eventually(func(c *assert.CollectT) {
		if assert.NoError(c, cluster.Client.Get(t.Context(), key, copied)) {
			assert.NotEqual(c, before, copied.UID)
		}
	})

	require.NoError(t, cluster.Client.Delete(t.Context(), tn.Subscription(t)))
	require.NoError(t, cluster.Client.Delete(t.Context(), source))
	tn.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(cluster.Client.Get(t.Context(), key, copied)))
	})
}
