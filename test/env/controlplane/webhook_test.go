package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
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
	cert := w.serveTLS("hook")
	w.registerHook(cert)

	w.eventually(func(c *require.Assertions) {
		_, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "denied-", Labels: map[string]string{"deny": "true"}},
		}, metav1.CreateOptions{})
		c.ErrorContains(err, "denied by the agent")
	})
	w.configMap("allowed", nil)
}

func TestTheProxyReachesAServiceByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	ca := w.serveTLS("web")
	proxy, err := url.Parse(w.cp.Proxy)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: pool}}}
	w.eventually(func(c *require.Assertions) {
		response, err := client.Get("https://web." + w.namespace + ".svc/readyz")
		c.NoError(err)
		c.NoError(response.Body.Close())
		c.Equal(http.StatusOK, response.StatusCode)
	})
}

func TestAnAPIServiceIsServedByAProcess(t *testing.T) {
	t.Parallel()
	// The test uses its own control plane, because an API without a running server delays the deletion of every namespace.
	w := newWorld(t, controlplane.Start(t))
	ca := w.serveTLS("api")
	service := map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.agent.example.com"},
		"spec": map[string]any{
			"group": "agent.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10, "caBundle": ca,
			"service": map[string]any{"namespace": w.namespace, "name": "api", "port": 443},
		},
	}
	body, err := json.Marshal(service)
	require.NoError(t, err)
	rest := w.client.Discovery().RESTClient()
	require.NoError(t, rest.Post().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Body(body).Do(t.Context()).Error())
	w.eventually(func(c *require.Assertions) {
		reply, err := rest.Get().AbsPath("/apis/agent.example.com/v1").DoRaw(t.Context())
		c.NoError(err)
		c.Contains(string(reply), `"groupVersion":"agent.example.com/v1"`)
	})
}

// serveTLS runs the agent behind port 443 of a Service with the given name and returns the agent's certificate.
func (w *world) serveTLS(name string) []byte {
	w.t.Helper()
	cert, key := servingCertificate(w.t, name+"."+w.namespace+".svc")
	w.secret("certs", map[string]string{"tls.crt": string(cert), "tls.key": string(key)})
	w.create(agentPod(name, "serve", mount("certs", "/certs", secretSource("certs")), func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = httpProbe("/readyz")
	}))
	_, err := w.client.CoreV1().Services(w.namespace).Create(w.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.waitReady(name)
	return cert
}

func (w *world) registerHook(ca []byte) {
	w.t.Helper()
	webhooks := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(w.t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook-" + w.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			// The control plane is shared with other tests, whose objects the webhook must not affect.
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

// servingCertificate returns a self-signed certificate.
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
