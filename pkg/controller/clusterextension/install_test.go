package clusterextension_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env/audit"
)

// The bundle of most tests: a Deployment, RBAC, a CustomResourceDefinition and a ConfigMap.
const (
	csv = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.vVERSION}
spec:
  version: VERSION
  displayName: op
  installModes: [{type: AllNamespaces, supported: true}, {type: SingleNamespace, supported: true}, {type: OwnNamespace, supported: true}]
  customresourcedefinitions: {owned: [{name: things.NAME.example.com, version: v1, kind: Thing}]}
  install:
    strategy: deployment
    spec:
      clusterPermissions: [{serviceAccountName: op, rules: [{apiGroups: [NAME.example.com], resources: [things], verbs: [get, list, watch]}]}]
      permissions: [{serviceAccountName: op, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}]
      deployments:
      - name: op
        spec:
          selector: {matchLabels: {app: op}}
          template:
            metadata: {labels: {app: op}}
            spec:
              serviceAccountName: op
              containers: [{name: manager, image: images.test/works, args: ["100000"]}]
`
	crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NAME.example.com}
spec:
  group: NAME.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: defaults}, data: {a: "1"}}`
)

func (w *world) enroll() {
	w.t.Helper()
	identity, err := scoped.ExtensionIdentity(w.name)
	require.NoError(w.t, err)
	for _, obj := range scoped.ExtensionEnrollment(identity, home, scoped.ImpersonationConstrained) {
		require.NoError(w.t, client.IgnoreAlreadyExists(w.admin.Create(w.t.Context(), obj)))
	}
}

// Nothing is written before the grant, the reported permissions are sufficient, and the install
// resumes automatically.
func TestInstallsAsTheSyntheticUserAfterTheReportIsApplied(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.publish("1.0.0", "", csv, crd, configMap)
	from, begun := w.logEnd(), time.Now()
	w.install()
	text := w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	t.Logf("first status: %s", time.Since(begun))
	require.Contains(t, text, "kubectl remit enroll clusterextension "+w.name)
	progress := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.Contains(t, progress, `error for resolved bundle "op.v1.0.0" with version "1.0.0": pre-authorization failed: service account requires the following permissions to manage cluster extension:`)
	require.Contains(t, progress, `Namespace:"" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[things.`+w.name+`.example.com] Verbs:[create,patch]`)
	require.Contains(t, progress, `To grant the missing permissions, run "kubectl remit grant clusterextension/`+w.name+`" or apply:`+"\n---\n")
	w.await(olmv1.TypeInstalled, metav1.ConditionFalse, olmv1.ReasonFailed)
	ext := w.get()
	require.Equal(t, &olmv1.Identity{
		Kind: olmv1.IdentityKindUser, Name: w.user(), Groups: []string{"olm:clusterextensions", "system:authenticated"},
	}, ext.Status.Identity)
	require.Empty(t, w.requests(from, w.sentAs), "no request is sent as the user")

	w.apply(w.report("enrollment.yaml"))
	require.Contains(t, w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions), "To grant the missing permissions, apply:")
	require.Empty(t, w.requests(from, func(e audit.Event) bool { return w.sentAs(e) && e.AsksToWrite() }), "nothing is written")
	granted := w.logEnd()
	complete := w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.0.0")
	w.await(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	w.await(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	w.await(olmv1.TypeDeprecated, metav1.ConditionFalse, olmv1.ReasonNotDeprecated)
	require.True(t, w.exists(&corev1.ConfigMap{}, "defaults"))
	sent, err := audit.AfterGrant(w.requests(granted, w.sentAs), complete)
	require.NoError(t, err)
	require.NotEmpty(t, sent)
	require.LessOrEqual(t, len(sent), 25)
	require.Len(t, w.get().Status.Inventory, 6)
	w.checkOwners()
	require.Contains(t, w.report(preflight.FileGrant), "is not missing any permissions")
}

// checkOwners checks that everything in the inventory has an owner reference to the extension, which is not a controller
// reference.
func (w *world) checkOwners() {
	w.t.Helper()
	ext := w.get()
	for _, o := range ext.Status.Inventory {
		obj := &metav1.PartialObjectMetadata{}
		version := "v1"
		obj.APIVersion, obj.Kind = strings.TrimPrefix(o.Group+"/"+version, "/"), o.Kind
		require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, obj))
		require.Len(w.t, obj.OwnerReferences, 1)
		require.Equal(w.t, ext.UID, obj.OwnerReferences[0].UID)
		require.Nil(w.t, metav1.GetControllerOf(obj))
	}
}

func TestInstallsAsAServiceAccount(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.publish("1.0.0", "", csv, crd, configMap)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonIdentityNotFound)
	require.Equal(t, `operation cannot proceed due to the following validation error(s): service account "installer" not found in namespace "`+w.name+`"`,
		w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying))
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "installer"}})
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	w.apply(w.report("enrollment.yaml"))
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.0.0")
	require.Equal(t, olmv1.IdentityKindServiceAccount, w.get().Status.Identity.Kind)
}

func TestRemovalNeedsNoPermissions(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(csv, crd, configMap)
	binding := metav1.ObjectMeta{Name: "admin-" + w.name}
	require.NoError(t, w.admin.DeleteAllOf(t.Context(), rbacBinding(), client.MatchingFields{"metadata.name": binding.Name}))
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	w.await(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded)

	require.NoError(t, w.admin.Delete(t.Context(), w.get()))
	require.EventuallyWithT(t, func(t2 *assert.CollectT) {
		assert.False(t2, w.exists(&corev1.ConfigMap{}, "defaults"))
		assert.False(t2, w.exists(&appsv1.Deployment{}, "op"))
		assert.NoError(t2, client.IgnoreNotFound(w.admin.Get(context.Background(), client.ObjectKey{Name: w.crdName()}, &apiextensionsv1.CustomResourceDefinition{})))
		assert.Error(t2, w.admin.Get(context.Background(), client.ObjectKey{Name: w.crdName()}, &apiextensionsv1.CustomResourceDefinition{}))
	}, patience, 100*time.Millisecond)
}

func (w *world) crdName() string { return "things." + w.name + ".example.com" }

// With the annotation, CustomResourceDefinitions are kept, and a later extension with the same name takes them over. Otherwise,
// that extension could neither convert the custom resources nor upgrade the CustomResourceDefinitions.
func TestKeepsCRDsOnRequest(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.installed(webhookCSV(), crd[:strings.Index(crd, "versions:")]+twoVersions, configMap)
	w.edit(func(ext *olmv1.ClusterExtension) {
		ext.Annotations = map[string]string{"olm.operatorframework.io/keep-crds": "true"}
	})
	require.Eventually(t, func() bool { return len(w.definition().OwnerReferences) == 0 }, patience, tick)
	w.awaitInstalled("1.0.0")
	require.Equal(t, []string{names.FinalizerExtension}, w.get().Finalizers)
	from := w.logEnd()
	require.NoError(t, w.admin.Delete(t.Context(), w.get()))
	w.awaitDeleted()
	require.Equal(t, apiextensionsv1.NoneConverter, w.definition().Spec.Conversion.Strategy, "no Pod serves the webhook")
	writes := w.requests(from, func(e audit.Event) bool { return w.sentAs(e) && e.Wrote() })
	require.Len(t, writes, 3, "the webhook, the Deployment, the conversion")
	require.Equal(t, "validatingwebhookconfigurations deployments customresourcedefinitions",
		writes[0].Object.Resource+" "+writes[1].Object.Resource+" "+writes[2].Object.Resource)
	require.Eventually(t, func() bool {
		return !w.exists(&appsv1.Deployment{}, "op") && !w.exists(&corev1.ConfigMap{}, "defaults") && !w.exists(&corev1.Secret{}, "op-service-cert")
	}, patience, 100*time.Millisecond)
	kept := w.definition().UID
	w.install()
	w.awaitInstalled("1.0.0")
	live := w.definition()
	require.Equal(t, kept, live.UID)
	require.Equal(t, w.get().UID, live.OwnerReferences[0].UID)
	secret := &corev1.Secret{}
	require.True(t, w.exists(secret, "op-service-cert"))
	require.Contains(t, string(live.Spec.Conversion.Webhook.ClientConfig.CABundle), string(secret.Data["olmCAKey"]))
}

// Keeping CustomResourceDefinitions requires no permission to stop the operator. Only the admission plugin
// OwnerReferencesPermissionEnforcement, which is enabled here, requires permission to delete them.
func TestKeepsCRDsWithTheGrantOfTheInstall(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.enroll()
	w.publish("1.0.0", "", webhookCSV(), crd[:strings.Index(crd, "versions:")]+twoVersions)
	w.install()
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.0.0")
	w.edit(func(ext *olmv1.ClusterExtension) {
		ext.Annotations = map[string]string{"olm.operatorframework.io/keep-crds": "true"}
	})
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.Contains(t, text, `"`+w.crdName()+`" is forbidden: cannot set an ownerRef on a resource you can't delete`)
	require.Contains(t, text, "the admission plugin OwnerReferencesPermissionEnforcement requires permission to delete an object whose owner references change")
	w.apply(strings.ReplaceAll(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: unown-NAME},
 rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [things.NAME.example.com], verbs: [delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: unown-NAME},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: unown-NAME},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "olm:clusterextension:NAME"}]}
`, "NAME", w.name))
	require.Eventually(t, func() bool { return len(w.definition().OwnerReferences) == 0 && len(w.get().Finalizers) == 1 }, patience, tick)
	w.await(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	kept := w.definition().UID
	require.NoError(t, w.admin.Delete(t.Context(), w.get()))
	w.awaitDeleted()
	require.Eventually(t, func() bool { return !w.exists(&appsv1.Deployment{}, "op") }, patience, 100*time.Millisecond)
	require.Equal(t, kept, w.definition().UID)
}

// Deleting an extension requires no permissions, even if a conversion cannot be reset.
func TestDeletionDoesNotWaitForTheIdentity(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.publish("1.0.0", "", webhookCSV(), crd[:strings.Index(crd, "versions:")]+twoVersions)
	w.grantAll()
	w.install(func(ext *olmv1.ClusterExtension) {
		ext.Annotations = map[string]string{"olm.operatorframework.io/keep-crds": "true"}
	})
	w.awaitInstalled("1.0.0")
	require.NoError(t, w.admin.DeleteAllOf(t.Context(), rbacBinding(), client.MatchingFields{"metadata.name": "admin-" + w.name}))
	w.await(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	require.Contains(t, w.report(preflight.FileReport), "optional: remove Deployment "+w.name+"/op before")
	require.NoError(t, w.admin.Delete(t.Context(), w.get()))
	w.awaitDeleted()
	require.Equal(t, apiextensionsv1.WebhookConverter, w.definition().Spec.Conversion.Strategy)
	require.EventuallyWithT(t, func(t2 *assert.CollectT) {
		events := &eventsv1.EventList{}
		assert.NoError(t2, w.admin.List(t.Context(), events))
		assert.True(t2, slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == w.name && e.Reason == "ConversionsNotReset" && e.Type == corev1.EventTypeWarning
		}))
	}, patience, tick)
}

func (w *world) awaitDeleted() {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return apierrors.IsNotFound(w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.name}, &olmv1.ClusterExtension{}))
	}, patience, tick)
}

// A CustomResourceDefinition with the label of the lineage, but without the proof, is a collision: nothing is written.
func TestRefusesCRDsWithAForgedLabel(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.publish("1.0.0", "", csv, crd)
	w.grantAll()
	label := names.LabelLineage + ": " + ownerutil.Lineage{Extension: w.name}.Mark()
	w.apply(strings.ReplaceAll(strings.Replace(crd, "metadata: {", "metadata: {labels: {"+label+"}, ", 1), "NAME", w.name))
	w.install()
	w.retries("already exists and was not created by this install")
	require.False(t, w.exists(&corev1.ServiceAccount{}, "op"))
}
