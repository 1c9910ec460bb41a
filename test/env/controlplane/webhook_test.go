package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/remit-olm/remit/test/env/controlplane"
)

const mergePatch = types.MergePatchType

func TestAWebhookReachesAProcessBehindAService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	cert, key := servingCertificate(t, "hook."+w.namespace+".svc")
	w.secret("certs", map[string]string{"tls.crt": string(cert), "tls.key": string(key)})
	w.create(agentPod("hook", "serve", mount("certs", "/certs", secretSource("certs")), func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = httpProbe("/readyz")
	}))
	_, err := w.client.CoreV1().Services(w.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "hook"},
			Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.waitReady("hook")
	w.registerHook(cert)

	w.eventually(func(c *require.Assertions) {
		_, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "denied-", Labels: map[string]string{"deny": "true"}},
		}, metav1.CreateOptions{})
		c.ErrorContains(err, "the agent says no")
	})
	w.configMap("allowed", nil)
}

func (w *world) registerHook(ca []byte) {
	w.t.Helper()
	webhooks := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(w.t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook-" + w.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			// Others use this control plane, too.
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: ca,
				Service:  &admissionregistrationv1.ServiceReference{Namespace: w.namespace, Name: "hook", Path: new("/validate")},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, webhooks.Delete(context.Background(), "hook-"+w.namespace, metav1.DeleteOptions{}))
	})
}

// servingCertificate is self-signed: its own authority.
func servingCertificate(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}
