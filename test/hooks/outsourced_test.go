package hooks

import (
	"context"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// injector simulates a certificate tool: it issues the Secret that a Service requests by annotation, and
// injects its CA into annotated objects.
type injector struct {
	tn   *env.Tenant
	pair cert.Pair
}

const servingCertSecret = "service.beta.openshift.io/serving-cert-secret-name"

func newInjector(tn *env.Tenant) *injector {
	tn.T.Helper()
	pair, err := cert.Policy{}.Issue(time.Now(), cert.Hosts(pkg, tn.Namespace))
	require.NoError(tn.T, err)
	return &injector{tn: tn, pair: pair}
}

// secret returns the Secret with the tool's certificate.
func (i *injector) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: i.tn.Meta(cert.SecretName(pkg)), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: i.pair.Certificate, corev1.TLSPrivateKeyKey: i.pair.Key.PEM(),
	}}
}

// start runs the tool until the test ends.
func (i *injector) start() {
	go func() {
		for i.tn.T.Context().Err() == nil {
			i.issue(i.tn.T.Context())
			i.inject(i.tn.T.Context())
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

func (i *injector) issue(ctx context.Context) {
	service := &corev1.Service{}
	if i.tn.Get(cert.ServiceName(pkg), service) == nil && service.Annotations[servingCertSecret] == cert.SecretName(pkg) {
		_ = i.tn.Cluster.Client.Create(ctx, i.secret())
	}
}

func (i *injector) inject(ctx context.Context) {
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	for _, list := range []client.ObjectList{validating, mutating} {
		_ = i.tn.Cluster.Client.List(ctx, list, client.MatchingLabels{"olm.owner.namespace": i.tn.Namespace})
	}
	for k := range validating.Items {
		c := &validating.Items[k]
		before := c.DeepCopy()
		for n := range c.Webhooks {
			i.trust(c, &c.Webhooks[n].ClientConfig)
		}
		_ = i.tn.Cluster.Client.Patch(ctx, c, client.MergeFrom(before), client.FieldOwner("injector"))
	}
	for k := range mutating.Items {
		c := &mutating.Items[k]
		before := c.DeepCopy()
		for n := range c.Webhooks {
			i.trust(c, &c.Webhooks[n].ClientConfig)
		}
		_ = i.tn.Cluster.Client.Patch(ctx, c, client.MergeFrom(before), client.FieldOwner("injector"))
	}
}

func (i *injector) trust(obj client.Object, config *admissionregistrationv1.WebhookClientConfig) {
	for _, key := range []string{serving.InjectCAFrom, serving.InjectCABundle} {
		if obj.GetAnnotations()[key] != "" {
			config.CABundle = i.pair.CA
		}
	}
}

// leftAlone asserts that Remit has neither issued a certificate nor set a CA.
func (i *injector) leftAlone() {
	tn := i.tn
	tn.T.Helper()
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, tn.Cluster.Client, tn.Namespace)) })
	secret := &corev1.Secret{}
	require.NoError(tn.T, tn.Get(cert.SecretName(pkg), secret))
	require.Equal(tn.T, i.secret().Data, secret.Data)
	require.Empty(tn.T, secret.Labels)
	written, err := tn.Cluster.Audited(tn.T.Context(), func(e audit.Event) bool {
		return e.Object != nil && e.Object.Resource == "secrets" && e.Object.Namespace == tn.Namespace && e.User.Username == "system:serviceaccount:"+tn.Account.Namespace+":"+tn.Account.Name
	})
	require.NoError(tn.T, err)
	require.Empty(tn.T, written, "the account must not read the Secret")
}

func TestLeavesCertificatesToTheToolOfTheSubscription(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	i := newInjector(tn)
	tn.Create(i.secret()) // as a certificate tool does if the cluster administrator creates a Certificate
	i.start()
	tn.Catalog("catalog", image(catalogHooks))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel, func(s *operatorsv1alpha1.SubscriptionSpec) {
		s.Config = &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{serving.InjectCAFrom: tn.Namespace + "/" + pkg}}
	})
	report := tn.PermissionsMissing()
	require.NotContains(t, report, cert.SecretName(pkg), "the account does not need the tool's permissions")
	tn.Paste(report)
	tn.Complete()
	got := tn.Succeeded(bundle.CSV)
	require.Nil(t, got.Status.CertsRotateAt)
	i.leftAlone()
}

func TestLeavesCertificatesToTheToolOfTheCSV(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	i := newInjector(tn)
	i.start()
	c := operator(1)
	c.Annotations = map[string]string{serving.InjectCABundle: "true"}
	grant(tn, c, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	install(tn, c)
	i.leftAlone()
}
