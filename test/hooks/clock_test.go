package hooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// expiries is the duration of the test in certificate lifetimes.
const expiries = 10

// The program and the caller use the test's clock; no other clock matters. The caller acts like an API server: it uses
// the caBundle of the webhook configuration and the Service's name.
func TestTenExpiriesByTheClock(t *testing.T) {
	t.Parallel()
	c, err := env.Start(t.Context(), env.Options{Without: []string{names.ServiceAccountCatalog, names.ServiceAccountOLM}})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := c.CheckIdentities(context.Background())
		assert.NoError(t, err)
		assert.NoError(t, c.Stop())
	})
	clock := testclock.NewFakePassiveClock(time.Now())
	runOLM(t, c, clock)
	tn := c.Tenant(t)
	op := operator(1)
	grant(tn, op, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	install(tn, op)

	callers := startCallers(tn, clock)
	start, replaced := clock.Now(), 0
	for clock.Now().Before(start.Add(expiries * cert.DefaultLife)) {
		got := &csv{}
		require.NoError(t, tn.Get(op.Name, got))
		served := authority(t, tn)
		clock.SetTime(got.Status.CertsRotateAt.Time.Add(time.Minute))
		tn.Eventually(func(ct *assert.CollectT) {
			clock.SetTime(clock.Now().Add(4 * time.Second))
			wake(ct, tn, op.Name)
			secret := &corev1.Secret{}
			assert.NoError(ct, tn.Get(cert.SecretName(pkg), secret))
			assert.NotEqual(ct, served, cert.Hash(secret.Data[cert.KeyCA]))
			assert.NotContains(ct, secret.Data, "previous."+cert.KeyCA, "the last rollout must have completed")
			assert.NoError(ct, tn.Get(op.Name, got))
			assert.True(ct, got.Status.CertsRotateAt.After(clock.Now()))
		})
		replaced++
	}
	callers.end(fmt.Sprintf("%d expiries, %d rotations, %d years", expiries, replaced, int(clock.Now().Sub(start).Hours()/24/365)))
	succeeded(tn, op.Name)
}

// wake edits a CSV to trigger a reconcile. The program's queue uses the real clock, so advancing the test's clock does
// not trigger one.
func wake(t assert.TestingT, tn *env.Tenant, name string) {
	got := &csv{}
	assert.NoError(t, tn.Get(name, got))
	before := got.DeepCopy()
	got.Spec.Description = got.ResourceVersion
	assert.NoError(t, tn.Cluster.Client.Patch(tn.T.Context(), got, client.MergeFrom(before)))
}

// runOLM runs cmd/olm's controllers in this process, with the identity of cmd/olm.
func runOLM(t *testing.T, c *env.Cluster, clock *testclock.FakePassiveClock) {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultNamespace, Name: names.ServiceAccountOLM}}
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, c.Client.SubResource("token").Create(t.Context(), sa, token))
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = token.Status.Token
	mgr, err := controller.NewManager(config, controller.ManagerOptions{
		UserAgent: names.UserAgentOLM, Namespace: names.DefaultNamespace, MetricsAddress: "0", HealthAddress: "0", Trim: controller.TrimForOLM,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, controller.OLM(ctx, mgr, controller.OLMOptions{Namespace: names.DefaultNamespace, Clock: clock}))
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, mgr.Start(ctx)) })
	t.Cleanup(func() { stop(); done.Wait() })
}

// callers is a set of workers that call the operator's webhook continuously.
type callers struct {
	tn    *env.Tenant
	clock *testclock.FakePassiveClock
	stop  context.CancelFunc
	group sync.WaitGroup

	mu       sync.Mutex
	calls    int
	failures []string
}

func startCallers(tn *env.Tenant, clock *testclock.FakePassiveClock) *callers {
	ctx, stop := context.WithCancel(tn.T.Context())
	c := &callers{tn: tn, clock: clock, stop: stop}
	for range workers {
		c.group.Go(func() {
			for ctx.Err() == nil {
				err := c.call(ctx)
				if ctx.Err() == nil {
					c.note(err)
				}
				time.Sleep(callPause)
			}
		})
	}
	return c
}

func (c *callers) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if err != nil {
		c.failures = append(c.failures, err.Error())
	}
}

// call sends one request to an arbitrary ready Pod of the operator, on a new connection.
func (c *callers) call(ctx context.Context) error {
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := c.tn.Cluster.Client.List(ctx, list, client.MatchingLabels{names.LabelOwnerNamespace: c.tn.Namespace}); err != nil {
		return err
	}
	if len(list.Items) != 1 || len(list.Items[0].Webhooks) != 1 {
		return errors.New("no webhook configuration exists")
	}
	config := list.Items[0].Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CABundle)
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       c.dial,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Time: c.clock.Now, ServerName: config.Service.Name + "." + config.Service.Namespace + ".svc"},
	}
	raw, err := json.Marshal(message(c.tn.Namespace, "hello"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "u", Object: runtime.RawExtension{Raw: raw}}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+config.Service.Name+*config.Service.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(answer.Body).Decode(review); err != nil {
		return err
	}
	if review.Response == nil || !review.Response.Allowed {
		return fmt.Errorf("%s: refused", answer.Status)
	}
	return nil
}

// dial connects to a ready Pod of the operator.
func (c *callers) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	slices := &discoveryv1.EndpointSliceList{}
	by := client.MatchingLabels{discoveryv1.LabelServiceName: cert.ServiceName(pkg)}
	if err := c.tn.Cluster.Client.List(ctx, slices, by, client.InNamespace(c.tn.Namespace)); err != nil {
		return nil, err
	}
	last := errors.New("no Pod is ready")
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; ready == nil || !*ready || len(slice.Ports) == 0 {
				continue
			}
			// On the embedded control plane, a Pod with the address 10.N.x.y listens on 127.N.x.y.
			_, rest, _ := strings.Cut(endpoint.Addresses[0], ".")
			conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127."+rest, strconv.Itoa(int(*slice.Ports[0].Port))))
			if err == nil {
				return conn, nil
			}
			last = err
		}
	}
	return nil, last
}

func (c *callers) end(what string) {
	c.tn.T.Helper()
	c.stop()
	c.group.Wait()
	c.tn.T.Logf("FIGURE %s: %d calls, %d failed", what, c.calls, len(c.failures))
	require.Empty(c.tn.T, some(c.failures))
	require.Greater(c.tn.T, c.calls, 100)
}
