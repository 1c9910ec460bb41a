package adopt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	certutil "k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	command "github.com/remit-olm/remit/cmd/kubectl-remit/adopt"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
	"github.com/remit-olm/remit/test/operators/sample/echo"
	samplehooks "github.com/remit-olm/remit/test/operators/sample/hooks"
)

// Names of the operator and of its second Deployment, which serves an API.
const (
	hooked = "hooked"
	apis   = "hooked-api"
)

// certificate is a serving certificate that OLM has issued.
type certificate struct {
	ca, pair, key []byte
	hash          string
}

func (r *recorded) issue(deployment string) {
	r.T.Helper()
	hosts := cert.Hosts(deployment, r.Namespace)
	pair, key, err := certutil.GenerateSelfSignedCertKey(hosts[0], []net.IP{}, hosts)
	require.NoError(r.T, err)
	leaf, rest := pem.Decode(pair)
	authority, _ := pem.Decode(rest)
	ca := pem.EncodeToMemory(authority)
	sum := sha256.Sum256(ca) // OLM hashes the PEM text
	if r.certificates == nil {
		r.certificates = map[string]certificate{}
	}
	r.certificates[deployment] = certificate{ca: ca, pair: pem.EncodeToMemory(leaf), key: key, hash: hex.EncodeToString(sum[:])}
}

// withHooks makes the operator serve a webhook, and adds a Deployment that serves an API.
func (r *recorded) withHooks(c *csv) {
	for _, name := range []string{hooked, apis} {
		r.issue(name)
	}
	strategy := &c.Spec.InstallStrategy.StrategySpec
	container := func(serve string) []corev1.Container {
		return []corev1.Container{{Name: "manager", Image: bundlev2.OperatorImage, Env: []corev1.EnvVar{{Name: "SERVE", Value: serve}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8081)}}}}}
	}
	strategy.DeploymentSpecs[0].Spec.Template.Spec.Containers = container("only-hooks")
	second := *strategy.DeploymentSpecs[0].DeepCopy()
	second.Name = apis
	labels := map[string]string{"app": apis}
	second.Spec.Selector, second.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	second.Spec.Template.Spec.Containers = container("api")
	strategy.DeploymentSpecs = append(strategy.DeploymentSpecs, second)
	c.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{
		GenerateName: "v.hooked.test", Type: operatorsv1alpha1.ValidatingAdmissionWebhook, DeploymentName: hooked, ContainerPort: 443,
		TargetPort: ptr.To(intstr.FromInt32(9443)), WebhookPath: ptr.To("/validate"), AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}}
	c.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{
		Group: echo.Group, Version: "v1", Kind: "Echo", Name: "echoes", DeploymentName: apis, ContainerPort: 5443}}
}

// createServingObjects creates the objects that OLM creates for Deployments that serve webhooks and APIs. The Pods wait for the
// Secrets among them.
func (r *recorded) createServingObjects(c *csv) {
	r.T.Helper()
	for name, port := range map[string]int32{hooked: 9443, apis: 5443} {
		service, issued := cert.ServiceName(name), r.certificates[name]
		r.create(&corev1.Service{ObjectMeta: r.owned(c, service, false), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "443", Port: map[string]int32{hooked: 443, apis: 5443}[name], TargetPort: intstr.FromInt32(port)}}}}, byOLM)
		secret := &corev1.Secret{ObjectMeta: r.owned(c, cert.SecretName(name), false), Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": issued.pair, "tls.key": issued.key, "olmCAKey": issued.ca}}
		secret.Annotations = map[string]string{"olmcahash": issued.hash}
		r.create(secret, byOLM)
		r.create(&rbacv1.Role{ObjectMeta: r.owned(c, secret.Name, false), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret.Name}, Verbs: []string{"get"}}}}, byOLM)
		r.create(&rbacv1.RoleBinding{ObjectMeta: r.owned(c, secret.Name, false), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: secret.Name},
			Subjects: r.subject()}, byOLM)
	}
	service := cert.ServiceName(apis)
	r.create(&rbacv1.ClusterRoleBinding{ObjectMeta: r.clusterMeta(c, service+"-system:auth-delegator"), Subjects: r.subject(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"}}, byOLM)
	reader := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: service + "-auth-reader", Labels: map[string]string{"olm.managed": "true"}},
		Subjects: r.subject(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"}}
	require.NoError(r.T, cluster.Client.Create(r.T.Context(), reader, byOLM)) // OLM sets no label by which this binding could be found
}

// called creates the objects that make the API server call the operator, once its Pods are ready.
func (r *recorded) called(c *csv) {
	r.T.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: r.clusterMeta(c, "v.hooked.test-x7k2p"+r.Namespace)}
	config.Labels["olm.webhook-description-generate-name"], config.Labels["olm.webhook-description-hash"] = "v.hooked.test", "8f7e"
	d := c.Spec.WebhookDefinitions[0]
	config.Webhooks = []admissionregistrationv1.ValidatingWebhook{{Name: d.GenerateName, Rules: d.Rules, FailurePolicy: d.FailurePolicy, SideEffects: d.SideEffects,
		AdmissionReviewVersions: d.AdmissionReviewVersions, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: r.certificates[hooked].ca,
			Service: &admissionregistrationv1.ServiceReference{Namespace: r.Namespace, Name: cert.ServiceName(hooked), Path: d.WebhookPath, Port: ptr.To(int32(443))}}}}
	r.create(config, byOLM)
	api := &apiregistrationv1.APIService{ObjectMeta: r.clusterMeta(c, "v1."+echo.Group), Spec: apiregistrationv1.APIServiceSpec{
		Group: echo.Group, Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 15, CABundle: r.certificates[apis].ca,
		Service: &apiregistrationv1.ServiceReference{Namespace: r.Namespace, Name: cert.ServiceName(apis), Port: ptr.To(int32(5443))}}}
	r.create(api, byOLM)
	r.Eventually(func(t *assert.CollectT) { assert.Empty(t, r.unreachable()) })
}

func (r *recorded) subject() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "ServiceAccount", Name: hooked, Namespace: r.Namespace}}
}

// unreachable lists the operator's endpoints that the API server cannot call: the webhook, the API or both. The webhook
// counts as reachable if it refuses the message that it must refuse.
func (r *recorded) unreachable() []string {
	var out []string
	refused := &corev1.ConfigMap{ObjectMeta: r.Meta("message"), Data: map[string]string{"message": samplehooks.Refused}}
	if err := cluster.Client.Create(r.T.Context(), refused, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "does not say "+samplehooks.Refused) {
		out = append(out, "webhook: "+errText(err))
	}
	api := &apiregistrationv1.APIService{}
	err := cluster.Client.Get(r.T.Context(), client.ObjectKey{Name: "v1." + echo.Group}, api)
	if err == nil && isAvailable(api) {
		return out
	}
	return append(out, "API: "+errText(err))
}

func isAvailable(api *apiregistrationv1.APIService) bool {
	for _, c := range api.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue
		}
	}
	return false
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// call sends requests for the webhook until the returned function is called, which returns the number of requests, and
// the first that failed because the webhook could not be called. Remit disables a webhook while it is being replaced.
func (r *recorded) call() (end func() (int, error)) {
	ctx, cancel := context.WithCancel(r.T.Context())
	type calls struct {
		n   int
		err error
	}
	result := make(chan calls, 1)
	go func() {
		n := 0
		for {
			refused := &corev1.ConfigMap{ObjectMeta: r.Meta("message"), Data: map[string]string{"message": samplehooks.Refused}}
			err := cluster.Client.Create(ctx, refused, client.DryRunAll)
			if ctx.Err() != nil {
				result <- calls{n, nil}
				return
			}
			if err != nil && !strings.Contains(err.Error(), "does not say "+samplehooks.Refused) {
				result <- calls{n, fmt.Errorf("after %d calls: %s", n, errText(err))}
				return
			}
			n++
		}
	}()
	return func() (int, error) {
		cancel()
		got := <-result
		return got.n, got.err
	}
}

// grantHooks grants the account what Remit needs for the webhook and the API.
func (r *recorded) grantHooks(c *csv) {
	r.T.Helper()
	p, err := hooks.New(hooks.Input{CSV: c, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: hooked, Namespace: r.Namespace}, CSV: c.Name, UID: "any"},
		Group: webhook.Group{Bounded: true, Targets: []string{r.Namespace}}})
	require.NoError(r.T, err)
	needs, err := p.Needs()
	require.NoError(r.T, err)
	for _, n := range needs {
		r.Grant(n.Namespace, n.Rules...)
	}
	r.Grant(r.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	// OLM's bindings for API servers are not adopted, so they count as permissions that someone else granted.
	create := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"create"}}
	}
	r.Grant("", create("authentication.k8s.io", "tokenreviews"), create("authorization.k8s.io", "subjectaccessreviews"))
	r.Grant("kube-system", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"},
		Verbs: []string{"get", "list", "watch"}})
	bind := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "clusterroles"}, Verbs: []string{"bind"}}
	r.Grant("kube-system", bind)
	r.Grant("", bind)
}

func TestTakesOverWebhooksAndAPIs(t *testing.T) {
	tn := cluster.Tenant(t)
	tn.GrantReleases()
	r := newRecorded(tn)
	c := r.operator(hooked, "catalog", r.withHooks)
	r.createServingObjects(c)
	r.grantHooks(c)
	r.ready()
	r.called(c)
	before, running := state(t, r.made), r.running()

	report := adopt(t, 0, "-n", r.Namespace)
	require.Len(t, report.Namespaces[0].Installs[0].Deployments, 2)
	for _, d := range report.Namespaces[0].Installs[0].Deployments {
		require.True(t, d.Restarts, d.Name)
		require.Contains(t, d.Why, "certificate")
	}
	for kind, name := range map[string]string{"ValidatingWebhookConfiguration": "v.hooked.test-x7k2p" + r.Namespace, "APIService": "v1." + echo.Group,
		"Service": cert.ServiceName(hooked), "Secret": cert.SecretName(apis), "Role": cert.SecretName(apis), "RoleBinding": cert.SecretName(hooked)} {
		requireVerdict(t, report, kind, name, command.Adopt, "")
	}

	scaleRemit(t, 0)
	adopt(t, 0, "-n", r.Namespace, "--yes")
	require.Equal(t, running, r.running())
	require.Empty(t, r.unreachable(), "the command itself interrupts nothing")
	adopt(t, 0, "-n", r.Namespace, "--undo", "--yes")
	require.Equal(t, before, state(t, r.made))
	adopt(t, 0, "-n", r.Namespace, "--yes")
	scaleRemit(t, 1)
	r.Publish("catalog", "hooked.v1.0.0 stable")

	t.Log("OLM's random names are reported as missing permissions, and nothing changes until they are granted")
	config := "v.hooked.test-x7k2p" + r.Namespace
	r.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, r.Get("hooked.v1.0.0", got))
		assert.True(c, slices.ContainsFunc(got.Status.RequirementStatus, func(s operatorsv1alpha1.RequirementStatus) bool {
			return s.Name == cert.SecretName(hooked) && strings.Contains(s.Message, "a new certificate cannot be issued") && strings.Contains(s.Message, config)
		}), "%s %v", got.Status.Message, got.Status.RequirementStatus)
	})
	d := &appsv1.Deployment{}
	require.NoError(t, r.Get(hooked, d))
	require.Equal(t, r.certificates[hooked].hash, d.Spec.Template.Annotations["olmcahash"])
	require.NotContains(t, strings.Join(r.unreachable(), " "), "webhook: ", "Remit may be replacing the API, for which no permissions are missing")

	t.Log("Remit issues its own certificates, with which the Pods restart once, and no request fails in the meantime")
	end := r.call()
	r.Grant("", rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"},
		ResourceNames: []string{config}, Verbs: []string{"get", "create", "patch", "delete"}})
	r.requireNewCertificates()
	r.requireInstalled()
	calls, err := end()
	require.NoError(t, err)
	require.Greater(t, calls, 10)
}

// requireNewCertificates requires that Remit has replaced the certificates, and what refers to them.
func (r *recorded) requireNewCertificates() {
	r.T.Helper()
	r.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, r.Get("hooked.v1.0.0", got))
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase, "%s %v", got.Status.Message, got.Status.Conditions)
		for _, name := range []string{hooked, apis} {
			d, secret := &appsv1.Deployment{}, &corev1.Secret{}
			assert.NoError(c, r.Get(name, d))
			assert.NoError(c, r.Get(cert.SecretName(name), secret))
			assert.NotEqual(c, r.certificates[name].hash, secret.Annotations["olmcahash"])
			assert.Equal(c, secret.Annotations["olmcahash"], d.Spec.Template.Annotations["olmcahash"])
			assert.Equal(c, "2", d.Annotations["deployment.kubernetes.io/revision"])
			assert.EqualValues(c, 1, d.Status.UpdatedReplicas)
			assert.EqualValues(c, 1, d.Status.Replicas)
			assert.EqualValues(c, 1, d.Status.AvailableReplicas)
		}
		assert.Empty(c, r.unreachable())
		list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		assert.NoError(c, cluster.Client.List(r.T.Context(), list, client.MatchingLabels{"olm.owner.namespace": r.Namespace}))
		assert.Len(c, list.Items, 1, "Remit has replaced OLM's configuration")
	})
}
