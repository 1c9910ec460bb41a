package hooks_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/proofs"
)

// cluster is a test cluster with OLM's CustomResourceDefinitions. None of Remit's programs run in it.
var cluster *env.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	without := []string{names.ServiceAccountCatalog, names.ServiceAccountOLM}
	if cluster, err = env.Start(context.Background(), env.Options{Without: without}); err != nil {
		fmt.Fprintln(os.Stderr, "hooks:", err)
		return 1
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "hooks:", err)
		return 1
	}
	return code
}

type (
	csv         = operatorsv1alpha1.ClusterServiceVersion
	description = operatorsv1alpha1.WebhookDescription
)

// world is one install of an operator with one Deployment and its own clock.
type world struct {
	*env.Tenant
	t       *testing.T
	account client.Client
	csv     *csv
	owner   ownerutil.Owner
	group   webhook.Group
	config  *operatorsv1alpha1.SubscriptionConfig
	now     time.Time
	memory  *hooks.Memory
	// api is the group of the operator's API. Each test has its own group.
	api string
}

const name = "demo"

func newWorld(t *testing.T, edits ...func(*world)) *world {
	t.Helper()
	w := &world{Tenant: cluster.Tenant(t), t: t, account: cluster.Client, now: time.Now(), memory: &hooks.Memory{}}
	w.api = w.Namespace + ".acme.io"
	w.csv = &csv{ObjectMeta: w.Meta("demo.v1.0.0")}
	spec := operatorsv1alpha1.StrategyDeploymentSpec{Name: name}
	labels := map[string]string{"app": name}
	spec.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	spec.Spec.Template.Labels = labels
	spec.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "images.test/demo:1"}}
	w.csv.Spec.InstallStrategy.StrategyName = "deployment"
	w.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{spec}
	w.csv.Spec.WebhookDefinitions = []description{w.hook("a.demo.acme.io"), w.hook("b.demo.acme.io")}
	w.group = webhook.Group{Bounded: true, Targets: []string{w.Namespace}}
	for _, e := range edits {
		e(w)
	}
	w.Group(env.AccountName, w.Namespace) // a ClusterServiceVersion requires an OperatorGroup
	w.store(w.csv.Name)
	return w
}

// store creates the ClusterServiceVersion in the API server, so that owner references to it are valid.
func (w *world) store(name string) {
	w.t.Helper()
	stored := &csv{ObjectMeta: w.Meta(name)}
	stored.Spec.InstallStrategy = w.csv.Spec.InstallStrategy
	w.Create(stored)
	w.own(stored)
}

func (w *world) own(stored *csv) {
	w.csv.Name, w.csv.UID = stored.Name, stored.UID
	w.owner = ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: w.Namespace}, CSV: stored.Name, UID: stored.UID, Proofs: proofs.Keys()}
}

func (w *world) hook(generateName string) description {
	return description{
		GenerateName: generateName, Type: operatorsv1alpha1.ValidatingAdmissionWebhook, DeploymentName: name, ContainerPort: 443,
		AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{w.api}, APIVersions: []string{"v1"}, Resources: []string{"things"}},
		}},
	}
}

// replace switches w to the next version of the operator. The next reconcile installs it.
func (w *world) replace(edit func(*csv)) {
	w.store("demo.v2.0.0")
	edit(w.csv)
}

func (w *world) plan() (*hooks.Plan, *hooks.Live) {
	w.t.Helper()
	namespace := &corev1.Namespace{}
	require.NoError(w.t, cluster.Client.Get(w.t.Context(), client.ObjectKey{Name: w.Namespace}, namespace))
	p, err := hooks.New(hooks.Input{CSV: w.csv, Owner: w.owner, Group: w.group, NamespaceUID: namespace.UID, Config: w.config})
	require.NoError(w.t, err)
	live, err := hooks.Gather(w.t.Context(), cluster.Client, p)
	require.NoError(w.t, err)
	return p, live
}

func (w *world) installer() hooks.Installer {
	return hooks.Installer{Account: w.account, Now: w.now, Memory: w.memory}
}

func permitted(...hooks.Need) error { return nil }

// certify runs only Certify, the first step of a reconcile.
func (w *world) certify() (hooks.Certificate, error) {
	w.t.Helper()
	p, live := w.plan()
	return w.installer().Certify(w.t.Context(), p, live, p.Served[0], permitted)
}

// accepted is the result of a dry run that the API server accepts.
func accepted(context.Context) error { return nil }

// reconcile installs the operator in the same order as the csv controller and returns the state of the certificate.
func (w *world) reconcile() hooks.Certificate {
	w.t.Helper()
	ctx := w.t.Context()
	p, live := w.plan()
	access, err := p.Access()
	require.NoError(w.t, err)
	for _, obj := range access {
		w.apply(obj)
	}
	c, err := w.installer().Certify(ctx, p, live, p.Served[0], permitted)
	require.NoError(w.t, err)
	want, err := deployment.Desired(deployment.Input{CSV: w.csv, Owner: w.owner, Pods: func(name string, pod *corev1.PodTemplateSpec) {
		serving.Mount(pod, name, c.Hash)
	}})
	require.NoError(w.t, err)
	if state, err := deployment.Check(ctx, cluster.Client, w.owner, want); err == nil && !state.Installed || !w.has(c.Hash) {
		_, err := w.installer().Off(ctx, p, live, name, accepted)
		require.NoError(w.t, err)
		_, err = deployment.Installer{Account: w.account, Facts: cluster.Client}.Install(ctx, w.owner, want)
		require.NoError(w.t, err)
		w.ready()
	}
	// The API server concurrently changes the statuses of CustomResourceDefinitions. As in the csv controller, the next attempt reads
	// them again: a patch of an outdated one can never succeed.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if live, err = hooks.Gather(ctx, cluster.Client, p); err != nil {
			return err
		}
		if _, err := w.installer().Ensure(ctx, p, live, name); err != nil {
			return err
		}
		_, err := w.installer().Prune(ctx, p, live)
		return err
	})
	require.NoError(w.t, err)
	return c
}

func (w *world) apply(obj *unstructured.Unstructured) {
	w.t.Helper()
	require.NoError(w.t, w.account.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test")))
}

// has reports whether the Deployment's Pod template is annotated with the hash of the CA.
func (w *world) has(hash string) bool {
	d := &appsv1.Deployment{}
	return w.Get(name, d) == nil && d.Spec.Template.Annotations["olmcahash"] == hash
}

func (w *world) ready() {
	w.t.Helper()
	require.NoError(w.t, wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, env.Patience, true, func(context.Context) (bool, error) {
		d := &appsv1.Deployment{}
		return w.Get(name, d) == nil && deployment.Status(d, d.Spec.Replicas).Ready, nil
	}))
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	require.NoError(w.t, w.Get(cert.SecretName(name), secret))
	return secret
}

// configurations returns the tenant's validating webhook configurations, keyed by the generateName of their
// descriptions.
func (w *world) configurations() map[string]*admissionregistrationv1.ValidatingWebhookConfiguration {
	w.t.Helper()
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	require.NoError(w.t, cluster.Client.List(w.t.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: w.Namespace}))
	out := map[string]*admissionregistrationv1.ValidatingWebhookConfiguration{}
	for i := range list.Items {
		out[list.Items[i].Labels[names.LabelWebhookGenerateName]] = &list.Items[i]
	}
	return out
}

// trusts reports whether all configurations trust a CA.
func (w *world) trusts(ca []byte) bool {
	w.t.Helper()
	for _, c := range w.configurations() {
		if len(c.Webhooks) != 1 || !cert.Trusts(c.Webhooks[0].ClientConfig.CABundle, ca) {
			return false
		}
	}
	return true
}

// asAccount returns a client that is authenticated as the tenant's account.
func (w *world) asAccount() client.Client {
	w.t.Helper()
	config := rest.CopyConfig(cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: scoped.Username(w.Account.Namespace, w.Account.Name), Groups: rbac.ServiceAccount(w.Account.Namespace, w.Account.Name).Groups,
	}
	c, err := client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
	require.NoError(w.t, err)
	return c
}
