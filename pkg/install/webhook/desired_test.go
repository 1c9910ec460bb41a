package webhook_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

var update = flag.Bool("update", false, "rewrite golden files")

// typed returns the webhooks of all configurations as mutating webhooks, because that type has the fields of both
// kinds.
func typed(t *testing.T, in webhook.Input) []admissionregistrationv1.MutatingWebhook {
	t.Helper()
	list, err := webhook.Desired(in)
	require.NoError(t, err)
	var out []admissionregistrationv1.MutatingWebhook
	for _, c := range list {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object, &config))
		out = append(out, config.Webhooks...)
	}
	return out
}

// full sets every optional field of a webhook description.
func full(d *description) {
	d.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	d.MatchPolicy = ptr.To(admissionregistrationv1.Exact)
	d.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"watched": "yes"}}
	d.TimeoutSeconds = ptr.To(int32(7))
	d.AdmissionReviewVersions = []string{"v1", "v1beta1"}
	d.ReinvocationPolicy = ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy)
	d.WebhookPath = ptr.To("/validate")
	d.ContainerPort = 8443
	d.Rules[0].Scope = ptr.To(admissionregistrationv1.AllScopes)
}

func TestConfigurationsHaveAllFieldsAndLabels(t *testing.T) {
	got, err := webhook.Desired(input(csvWith(hook(mutating, "m.demo.acme.io", full), hook(validating, "v.demo.acme.io", full),
		hook(validating, "plain.demo.acme.io", func(d *description) { d.ContainerPort = 0 }), hook(conversion, "c"))))
	require.NoError(t, err)
	require.Len(t, got, 3)
	for i, name := range []string{"mutating.yaml", "validating.yaml", "plain.yaml"} {
		require.Equal(t, "demo.operator", got[i].Deployment)
		raw, err := yaml.Marshal(got[i].Object)
		require.NoError(t, err)
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(raw))
	}
}

func TestNamesOfTwoInstallsNeverCollide(t *testing.T) {
	d := hook(validating, "a.b.c")
	one := webhook.Name(&d, ownerutil.Lineage{Package: "demo", Namespace: "t1"})
	require.Equal(t, one, webhook.Name(&d, ownerutil.Lineage{Package: "demo", Namespace: "t1"}))
	require.Regexp(t, `^a\.b\.c-[a-z2-7]{16}$`, one)
	require.NotEqual(t, one, webhook.Name(&d, ownerutil.Lineage{Package: "demo", Namespace: "t2"}))
	require.NotEqual(t, one, webhook.Name(&d, ownerutil.Lineage{Package: "other", Namespace: "t1"}))
	m := hook(mutating, "a.b.c")
	require.NotEqual(t, one, webhook.Name(&m, ownerutil.Lineage{Package: "demo", Namespace: "t1"}))
}

func TestTheHashDependsOnlyOnTheDescription(t *testing.T) {
	hash := func(in webhook.Input) string {
		got, err := webhook.Desired(in)
		require.NoError(t, err)
		require.Equal(t, got[0].GetLabels()["olm.webhook-description-hash"], got[0].Hash)
		return got[0].Hash
	}
	first := hash(input(csvWith(hook(validating, "a.b.c"))))
	require.Equal(t, first, hash(input(csvWith(hook(validating, "a.b.c")), func(in *webhook.Input) {
		in.Group.Targets, in.Trust = []string{"t9"}, nil
	})))
	require.NotEqual(t, first, hash(input(csvWith(hook(validating, "a.b.c", func(d *description) { d.WebhookPath = ptr.To("/v2") })))))
}

func TestACertificateToolManagesTheCABundle(t *testing.T) {
	got, err := webhook.Desired(input(csvWith(hook(validating, "a.b.c")), func(in *webhook.Input) {
		in.Trust = nil
		in.Annotations = func(string) map[string]string { return map[string]string{"cert-manager.io/inject-ca-from": "t1/demo"} }
	}))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"cert-manager.io/inject-ca-from": "t1/demo"}, got[0].GetAnnotations())
	hooks, ok := got[0].Object["webhooks"].([]any)
	require.True(t, ok)
	require.NotContains(t, hooks[0].(map[string]any)["clientConfig"], "caBundle")
}

func TestOffHasNoWebhooks(t *testing.T) {
	got, err := webhook.Desired(input(csvWith(hook(validating, "a.b.c"))))
	require.NoError(t, err)
	off := webhook.Off(got[0])
	require.Equal(t, []any{}, off.Object["webhooks"])
	require.Len(t, got[0].Object["webhooks"], 1, "the original is unchanged")
	require.Equal(t, got[0].GetLabels(), off.GetLabels())
}

func TestConversions(t *testing.T) {
	in := input(csvWith(hook(conversion, "a", func(d *description) { d.WebhookPath = ptr.To("/convert") }), hook(validating, "a.b.c")))
	got := webhook.Conversions(in)
	require.Len(t, got, 1)
	c := got[0]
	require.Equal(t, "things.acme.io", c.CRD)
	require.Equal(t, "demo.operator", c.Deployment)

	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.UID, crd.ResourceVersion = "things.acme.io", "u", "7"
	require.False(t, c.InPlace(crd))
	crd.Spec.Conversion = c.Stanza.DeepCopy()
	require.False(t, c.InPlace(crd), "the annotation is missing")
	require.False(t, webhook.SetByRemit(crd, "t1"))
	crd.Annotations = map[string]string{"remit.dev/conversion": "t1/demo-operator-service"}
	require.True(t, webhook.SetByRemit(crd, "t1"))
	require.False(t, webhook.SetByRemit(crd, "t2"))
	require.True(t, c.InPlace(crd))
	service, ok := webhook.CalledAt(crd)
	require.True(t, ok)
	require.Equal(t, "t1/demo-operator-service", service.String())
	require.Equal(t, "trust", string(webhook.Bundle(crd)))

	crd.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("other")
	require.False(t, c.InPlace(crd))
	in.Trust = nil
	require.True(t, webhook.Conversions(in)[0].InPlace(crd), "another manager sets the caBundle")

	crd.Spec.Conversion.Webhook.ClientConfig.Service.Path = ptr.To("/v2")

	patch, err := c.Patch(crd)
	require.NoError(t, err)
	raw, err := patch.Data(crd)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"remit.dev/conversion":"t1/demo-operator-service"}},
		"spec":{"conversion":{"strategy":"Webhook","webhook":{
		"clientConfig":{"service":{"namespace":"t1","name":"demo-operator-service","path":"/convert","port":443},"caBundle":"dHJ1c3Q=","url":null},
		"conversionReviewVersions":["v1"]}}}}`, string(raw))
	patch, err = webhook.Reset(crd)
	require.NoError(t, err)
	raw, err = patch.Data(crd)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"remit.dev/conversion":"none"}},
		"spec":{"conversion":{"strategy":"None","webhook":null}}}`, string(raw))

	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	_, ok = webhook.CalledAt(crd)
	require.False(t, ok)
	require.Nil(t, webhook.Bundle(crd))
}
