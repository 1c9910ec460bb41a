package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// givenWebhook returns a world with an extension whose webhook intercepts all things, and whose identity is a cluster-admin.
func givenWebhook(t *testing.T) *world {
	t.Helper()
	w := given(t)
	w.grantAll()
	w.publish("1.0.0", "", webhookCSV(), crd[:strings.Index(crd, "versions:")]+twoVersions, configMap)
	w.install()
	w.awaitInstalled("1.0.0")
	require.Len(t, w.intercepting(), 1)
	return w
}

// intercepting returns the extension's webhooks.
func (w *world) intercepting() []admissionregistrationv1.ValidatingWebhook {
	w.t.Helper()
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	require.NoError(w.t, w.admin.List(w.t.Context(), list, client.MatchingLabels{names.LabelExtensionName: w.name}))
	require.Len(w.t, list.Items, 1)
	return list.Items[0].Webhooks
}

// everythingIn allows everything in some API groups.
func everythingIn(groups ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}
}

// exceptThings returns rules for what the extension contains, without the kind that its webhook intercepts, and more rules.
func exceptThings(more ...rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return append(more, everythingIn("", "apps", rbacv1.GroupName, "apiextensions.k8s.io", "coordination.k8s.io", "events.k8s.io"))
}

func (w *world) regrant() {
	w.t.Helper()
	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "olm:clusterextension:" + w.name}}})
}

func TestAWebhookIsNarrowedToTheIdentity(t *testing.T) {
	t.Parallel()
	w := givenWebhook(t)
	w.weaken(exceptThings(everythingIn(admissionregistrationv1.GroupName))...)
	message := w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved)
	require.Contains(t, message, "is missing permissions to read and write what the operator intercepts through webhook \"v."+w.name+".example.com\" in the whole cluster")
	require.Contains(t, message, "Remit has removed this, and restores it when the identity has the permissions again")
	require.Empty(t, w.intercepting())

	w.regrant()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, w.intercepting(), 1)
		assert.Nil(c, meta.FindStatusCondition(w.get().Status.Conditions, olmv1.TypeExceedsIdentity))
	}, patience, tick)
}

// Only Remit may write the inventory. If it is empty nevertheless, the rendered objects show which webhooks there are.
func TestAWebhookIsNarrowedWithoutInventory(t *testing.T) {
	t.Parallel()
	w := givenWebhook(t)
	rest := "rest-" + w.name // the identity has what it is left with already before
	w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: rest}, Rules: exceptThings(everythingIn(admissionregistrationv1.GroupName))})
	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: rest}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: rest},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "olm:clusterextension:" + w.name}}})
	require.NoError(t, w.admin.Status().Patch(t.Context(), &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: w.name}},
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"inventory":[]}}`))))
	require.NoError(t, w.admin.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}}))
	w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved)
	require.Empty(t, w.intercepting())
}

// The author of an extension cannot keep a webhook by requesting a version that does not exist.
func TestAWebhookIsNarrowedIfTheRunStopsEarlier(t *testing.T) {
	t.Parallel()
	w := givenWebhook(t)
	w.edit(func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Version = "99.0.0" })
	w.weaken(exceptThings(everythingIn(admissionregistrationv1.GroupName))...)
	w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved)
	require.Empty(t, w.intercepting())
}

func TestAWebhookThatTheIdentityMayNotNarrow(t *testing.T) {
	t.Parallel()
	w := givenWebhook(t)
	readHooks := rbacv1.PolicyRule{APIGroups: []string{admissionregistrationv1.GroupName}, Resources: []string{"validatingwebhookconfigurations"}, Verbs: []string{"get"}}
	w.weaken(exceptThings(readHooks)...)
	message := w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonNotRemoved)
	require.Contains(t, message, "the webhooks cannot be changed (")
	require.Contains(t, message, "; to remove them, run: kubectl delete validatingwebhookconfiguration ")
	require.Len(t, w.intercepting(), 1)
}

func TestAWebhookThatIsKept(t *testing.T) {
	t.Parallel()
	w := givenWebhook(t)
	w.edit(func(ext *olmv1.ClusterExtension) {
		ext.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
	})
	w.weaken(exceptThings(everythingIn(admissionregistrationv1.GroupName))...)
	require.Contains(t, w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonKept), "intercepts through webhook ")
	require.Len(t, w.intercepting(), 1)
}

func TestAWebhookThatTheIdentityMayNotRead(t *testing.T) {
	t.Parallel()
	w := givenWebhook(t)
	w.weaken(exceptThings()...)
	message := w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonNotRemoved)
	require.Contains(t, message, "whether it may intercept these requests is unknown (")
	require.Contains(t, message, "; to remove it, run: kubectl delete validatingwebhookconfiguration ")
}
