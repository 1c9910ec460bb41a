package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/audit"
)

const (
	webhooks = `  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: v.NAME.example.com, deploymentName: op, containerPort: 9443, admissionReviewVersions: [v1], sideEffects: None,
     failurePolicy: Ignore, rules: [{apiGroups: [NAME.example.com], apiVersions: [v1], resources: [things], operations: [CREATE]}]}
  - {type: ConversionWebhook, generateName: c.NAME.example.com, deploymentName: op, containerPort: 9443, conversionCRDs: [things.NAME.example.com],
     admissionReviewVersions: [v1], sideEffects: None}
`
	twoVersions = `versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}},
    {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`
)

// webhookCSV supports only AllNamespaces, which conversions require.
func webhookCSV() string {
	return strings.NewReplacer("{type: SingleNamespace, supported: true}, {type: OwnNamespace, supported: true}", "{type: SingleNamespace, supported: false}").Replace(csv) + webhooks
}

// Remit issues the certificates of webhooks and conversions, and replaces them if their Secret is deleted.
func TestInstallsWebhooksWithCertificates(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grantAll()
	i := strings.Index(crd, "versions:")
	w.publish("1.0.0", "", webhookCSV(), crd[:i]+twoVersions, configMap)
	from := w.logEnd()
	w.install()
	w.awaitInstalled("1.0.0")
	require.Len(t, w.requests(from, func(e audit.Event) bool {
		return w.sentAs(e) && e.Verb == "get" && e.Object.Resource == "configmaps" && e.Object.Name == "defaults"
	}), 1, "an object is read once, although it is rendered again with certificates")
	trusted := func() []byte {
		secret := &corev1.Secret{}
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.name, Name: "op-service-cert"}, secret))
		return secret.Data["olmCAKey"]
	}
	require.NotEmpty(t, trusted())
	require.NotEmpty(t, w.deployment().Spec.Template.Annotations[names.AnnotationCAHash])
	check := func() {
		require.EventuallyWithT(t, func(t2 *assert.CollectT) {
			config := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
			assert.NoError(t2, w.admin.List(t.Context(), config, client.MatchingLabels{names.LabelExtensionName: w.name}))
			if assert.Len(t2, config.Items, 1) && assert.Len(t2, config.Items[0].Webhooks, 1) {
				assert.Contains(t2, string(config.Items[0].Webhooks[0].ClientConfig.CABundle), string(trusted()))
			}
			live := &apiextensionsv1.CustomResourceDefinition{}
			assert.NoError(t2, w.admin.Get(t.Context(), client.ObjectKey{Name: w.crdName()}, live))
			if assert.NotNil(t2, live.Spec.Conversion.Webhook) {
				assert.Contains(t2, string(live.Spec.Conversion.Webhook.ClientConfig.CABundle), string(trusted()))
			}
		}, patience, tick)
	}
	check()
	before := string(trusted())
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "op-service-cert"}}))
	require.Eventually(t, func() bool { return w.exists(&corev1.Secret{}, "op-service-cert") && string(trusted()) != before }, patience, tick)
	check()
	w.awaitInstalled("1.0.0")

	// In version 1.1.0, another Deployment serves the webhooks.
	rename := strings.NewReplacer("      - name: op\n", "      - name: renamed\n", "deploymentName: op,", "deploymentName: renamed,")
	w.publish("1.1.0", "op.v1.0.0", rename.Replace(webhookCSV()), crd[:i]+twoVersions, configMap)
	w.awaitInstalled("1.1.0")
	require.True(t, w.exists(&corev1.Secret{}, "renamed-service-cert"))
	require.False(t, w.exists(&corev1.Secret{}, "op-service-cert"))
	require.Equal(t, "renamed-service", w.definition().Spec.Conversion.Webhook.ClientConfig.Service.Name)

	// Version 1.2.0 has no webhooks.
	w.publish("1.2.0", "op.v1.1.0", csv, crd[:i]+twoVersions, configMap)
	w.awaitInstalled("1.2.0")
	config := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	require.NoError(t, w.admin.List(t.Context(), config, client.MatchingLabels{names.LabelExtensionName: w.name}))
	require.Empty(t, config.Items)
	require.False(t, w.exists(&corev1.Secret{}, "renamed-service-cert"))
	require.Equal(t, apiextensionsv1.NoneConverter, w.definition().Spec.Conversion.Strategy)
	require.Nil(t, w.definition().Spec.Conversion.Webhook)

	// Version 1.3.0 has webhooks again.
	w.publish("1.3.0", "op.v1.2.0", webhookCSV(), crd[:i]+twoVersions, configMap)
	w.awaitInstalled("1.3.0")
	require.Equal(t, "op-service", w.definition().Spec.Conversion.Webhook.ClientConfig.Service.Name)
}

// definition returns the CustomResourceDefinition of the extension.
func (w *world) definition() *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	live := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.crdName()}, live))
	return live
}
