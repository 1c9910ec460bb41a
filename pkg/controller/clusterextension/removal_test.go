package clusterextension_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env/audit"
)

// Deleting an extension removes what it installed, even if its ServiceAccount and all grants were deleted first.
func TestRemovalNeedsNoServiceAccount(t *testing.T) {
	t.Parallel()
	w := given(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "installer"}}
	w.create(account)
	w.publish("1.0.0", "", csv, crd, configMap)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	w.apply(w.report("enrollment.yaml"))
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.0.0")
	installed := w.get()
	require.NoError(t, w.admin.Delete(t.Context(), account))
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonIdentityNotFound)
	w.await(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded)

	require.NoError(t, w.admin.Delete(t.Context(), installed))
	w.awaitDeleted()
	require.NotEmpty(t, installed.Status.Inventory)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		for _, o := range installed.Status.Inventory {
			obj := &metav1.PartialObjectMetadata{}
			obj.APIVersion, obj.Kind = strings.TrimPrefix(o.Group+"/v1", "/"), o.Kind
			err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, obj)
			assert.True(t, apierrors.IsNotFound(err), "%s %s: %v", o.Kind, o.Name, err)
		}
	}, patience, 100*time.Millisecond)
}

// With --cascade=orphan, the garbage collector keeps everything, and the operator keeps converting: Remit neither stops it nor
// resets its conversions.
func TestAnOrphaningDeletionKeepsTheOperator(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"without kept CRDs": nil,
		"with kept CRDs":    {"olm.operatorframework.io/keep-crds": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t)
			w.publish("1.0.0", "", webhookCSV(), crd[:strings.Index(crd, "versions:")]+twoVersions)
			w.grantAll()
			w.install(func(ext *olmv1.ClusterExtension) { ext.Annotations = annotations })
			w.awaitInstalled("1.0.0")
			before, from := w.deployment(), w.logEnd()
			require.NoError(t, w.admin.Delete(t.Context(), w.get(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			w.awaitDeleted()
			// A reconcile that began before the deletion may still apply an object again, so only deletions are checked.
			require.Empty(t, w.requests(from, func(e audit.Event) bool { return w.sentAs(e) && strings.HasPrefix(e.Verb, "delete") }))
			after := w.deployment()
			require.Equal(t, before.UID, after.UID)
			require.Equal(t, before.Spec, after.Spec)
			require.Nil(t, after.DeletionTimestamp)
			require.Empty(t, after.OwnerReferences)
			require.Equal(t, apiextensionsv1.WebhookConverter, w.definition().Spec.Conversion.Strategy)
			require.Empty(t, w.definition().OwnerReferences)
			require.True(t, w.exists(&corev1.Secret{}, "op-service-cert"))
			require.True(t, w.exists(&corev1.ServiceAccount{}, "op"))
			list := &rbacv1.ClusterRoleList{}
			require.NoError(t, w.admin.List(t.Context(), list, client.MatchingLabels{names.LabelExtensionName: w.name}))
			require.NotEmpty(t, list.Items)
		})
	}
}
