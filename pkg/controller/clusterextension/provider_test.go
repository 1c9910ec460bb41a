package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env/audit"
)

// certManagerCRDs define the kinds of cert-manager that installs use, without their schemas.
const certManagerCRDs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: issuers.cert-manager.io
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Issuer, plural: issuers, singular: issuer, listKind: IssuerList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: certificates.cert-manager.io
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, plural: certificates, singular: certificate, listKind: CertificateList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// givenProvider returns a world with its own program, in which a provider issues certificates.
func givenProvider(t *testing.T, provider serving.Provider) *world {
	t.Helper()
	w := given(t)
	w.program = w.private(w.name)
	w.provider = provider
	stop := w.run(t)
	t.Cleanup(stop)
	i := strings.Index(crd, "versions:")
	w.publish("1.0.0", "", webhookCSV(), crd[:i]+twoVersions)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{labelProgram: w.name} })
	return w
}

// With cert-manager, an install contains an Issuer and a Certificate, for which the identity needs permissions. It waits until
// cert-manager is installed, and does not change what cert-manager writes.
func TestCertManagerIssuesTheCertificates(t *testing.T) {
	t.Parallel()
	w := givenProvider(t, serving.ProviderCertManager)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying),
			"Remit is configured with --webhook-certificates=cert-manager, but the cluster does not serve kind Certificate of cert-manager.io/v1: install cert-manager, "+
				"or change the flag of the extension program")
	}, patience, tick)
	w.apply(certManagerCRDs)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying),
			`Namespace:"`+w.name+`" APIGroups:[cert-manager.io] Resources:[certificates,issuers] ResourceNames:[op-service-cert] Verbs:[create,get,patch]`)
	}, patience, tick)
	require.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying),
		`Namespace:"`+w.name+`" APIGroups:[] Resources:[secrets] ResourceNames:[op-service-cert] Verbs:[create,get,patch]`,
		"the identity causes cert-manager to write the Secret")
	from := w.logEnd()
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "op-service-cert"}, StringData: map[string]string{"of": "others"}})
	w.apply(w.report("enrollment.yaml"))
	w.apply(w.report(preflight.FileGrant))
	w.refusesToOverwrite(from)
	require.Eventually(t, func() bool { return w.exists(w.issued("Certificate"), "op-service-cert") }, patience, tick)
	require.Eventually(t, func() bool { return w.exists(w.issued("Issuer"), "op-service-cert") }, patience, tick)
	w.issue()
	w.awaitInstalled("1.0.0")
	require.Len(t, w.requests(from, func(e audit.Event) bool {
		return w.sentAs(e) && e.Wrote() && e.Created() && e.Object.APIGroup == "cert-manager.io"
	}), 2, "the identity creates the Issuer and the Certificate")
	require.Empty(t, w.requests(from, func(e audit.Event) bool {
		return e.Object != nil && e.Object.Resource == "secrets" && w.sentAs(e) && e.Verb != "get"
	}))
	require.Empty(t, w.deployment().Spec.Template.Annotations[names.AnnotationCAHash])
	require.Equal(t, w.name+"/op-service-cert", w.definition().Annotations[serving.InjectCAFrom])
	w.checkInjected()

	// cert-manager keeps the Secret when the Certificate is deleted, and may overwrite it later.
	certificate := w.issued("Certificate")
	certificate.SetNamespace(w.name)
	certificate.SetName("op-service-cert")
	require.NoError(t, w.admin.Delete(t.Context(), certificate))
	w.grantAll() // includes the permission to watch Certificates
	require.Eventually(t, func() bool { return w.exists(w.issued("Certificate"), "op-service-cert") }, patience, tick)
}

// refusesToOverwrite checks that a Secret of another user stops the install, and that the audit log contains no writes after the
// offset from. Then it deletes the Secret.
func (w *world) refusesToOverwrite(from int64) {
	w.t.Helper()
	secret := "Secret " + w.name + "/op-service-cert"
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		assert.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying),
			secret+" already exists: cert-manager would overwrite it, but did not issue it for Certificate "+w.name+"/op-service-cert; it was not changed: "+
				"delete it if nothing else needs it")
	}, patience, tick)
	require.Empty(w.t, w.requests(from, func(e audit.Event) bool {
		return w.sentAs(e) && e.Wrote() && e.Object.APIGroup != "authentication.k8s.io" // a token request tests the enrollment
	}))
	require.NoError(w.t, w.admin.Delete(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "op-service-cert"}}))
}

// issue creates the Secret with the certificate, as providers do.
func (w *world) issue() {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.name, Name: "op-service-cert", Annotations: map[string]string{"cert-manager.io/certificate-name": "op-service-cert"},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key")},
	})
}

// checkInjected injects a CA as cert-manager does, and checks that it remains.
func (w *world) checkInjected() {
	w.t.Helper()
	find := func() *admissionregistrationv1.ValidatingWebhookConfiguration {
		list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		require.NoError(w.t, w.admin.List(w.t.Context(), list, client.MatchingLabels{names.LabelExtensionName: w.name}))
		require.Len(w.t, list.Items, 1)
		return &list.Items[0]
	}
	const ca = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
	config := find()
	require.Equal(w.t, w.name+"/op-service-cert", config.Annotations[serving.InjectCAFrom])
	config.Webhooks[0].ClientConfig.CABundle = []byte(ca)
	require.NoError(w.t, w.admin.Update(w.t.Context(), config, client.FieldOwner("cert-manager-cainjector")))
	w.edit(func(ext *olmv1.ClusterExtension) { ext.Spec.ProgressDeadlineMinutes = 20 })
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		ext := w.get()
		for _, c := range ext.Status.Conditions {
			assert.Equal(t, ext.Generation, c.ObservedGeneration)
		}
	}, patience, tick)
	w.awaitInstalled("1.0.0")
	require.Equal(w.t, ca, string(find().Webhooks[0].ClientConfig.CABundle))
}

// issued returns an empty object of a kind of cert-manager.
func (w *world) issued(kind string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("cert-manager.io/v1")
	obj.SetKind(kind)
	return obj
}

// With service-ca, the Service requests the certificate, and nothing else is added. The provider can be changed later.
func TestServiceCAIssuesTheCertificates(t *testing.T) {
	t.Parallel()
	w := givenProvider(t, serving.ProviderServiceCA)
	w.grantAll()
	require.Eventually(t, func() bool { return w.exists(&corev1.Service{}, "op-service") }, patience, tick)
	service := &corev1.Service{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.name, Name: "op-service"}, service))
	require.Equal(t, "op-service-cert", service.Annotations["service.beta.openshift.io/serving-cert-secret-name"])
	require.False(t, w.exists(&corev1.Secret{}, "op-service-cert"))
	w.issue()
	w.awaitInstalled("1.0.0")
	require.Equal(t, "true", w.definition().Annotations[serving.InjectCABundle])

	// The shared program, in which Remit issues the certificates, takes over. The Secret was not created by Remit.
	published := w.snap
	published.Reader = w.contents
	running(t).store.Put(&published)
	w.edit(func(ext *olmv1.ClusterExtension) { ext.Labels = nil })
	require.Eventually(t, func() bool {
		return strings.Contains(w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying), "Secret "+w.name+"/op-service-cert")
	}, patience, tick)
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(service), service))
	require.NotEmpty(t, service.Annotations["service.beta.openshift.io/serving-cert-secret-name"], "nothing was changed")
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "op-service-cert"}}))
	w.awaitInstalled("1.0.0")
	secret := &corev1.Secret{}
	require.True(t, w.exists(secret, "op-service-cert"))
	require.NotEmpty(t, secret.Data["olmCAKey"])

	// The first program takes over again, and deletes Remit's Secret.
	w.edit(func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{labelProgram: w.name} })
	require.Eventually(t, func() bool { return !w.exists(&corev1.Secret{}, "op-service-cert") }, patience, tick)
}
