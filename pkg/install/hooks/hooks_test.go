package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

func TestAnInstallWritesOnlyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.reconcile()
	require.Equal(t, cert.Replace, c.Done)
	require.Equal(t, cert.Missing, c.Reason)
	secret := w.secret()
	require.Equal(t, c.Hash, cert.Hash(secret.Data[cert.KeyCA]))
	require.Equal(t, c.Hash, secret.Annotations["olmcahash"])
	configurations := w.configurations()
	require.Len(t, configurations, 2)
	for _, config := range configurations {
		hook := config.Webhooks[0]
		require.Equal(t, string(secret.Data[cert.KeyCA]), string(hook.ClientConfig.CABundle))
		require.Equal(t, "demo-service", hook.ClientConfig.Service.Name)
		require.Equal(t, []string{w.Namespace}, hook.NamespaceSelector.MatchExpressions[0].Values)
	}
	before := w.versions()
	c = w.reconcile()
	require.Equal(t, cert.Keep, c.Done)
	require.Greater(t, c.After, 400*24*time.Hour)
	require.Equal(t, before, w.versions())
}

// versions returns the resource versions of all objects of the install except the Deployment.
func (w *world) versions() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	service := &corev1.Service{}
	require.NoError(w.t, w.Get(cert.ServiceName(name), service))
	for _, obj := range []client.Object{service, w.secret()} {
		out[fmt.Sprintf("%T", obj)] = obj.GetResourceVersion()
	}
	for _, c := range w.configurations() {
		out[c.Name] = c.ResourceVersion
	}
	return out
}

func TestACertificateIsRotatedNearExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.reconcile()
	old := w.secret().Data[cert.KeyCA]

	w.now = w.now.Add(cert.DefaultLife/3*2 + time.Hour)
	require.Equal(t, cert.Stage, w.reconcile().Done)
	require.Equal(t, string(old), string(w.secret().Data[cert.KeyCA]), "the pair in use is kept")
	require.True(t, w.trusts(old))
	next := w.secret().Data["next.olmCAKey"]
	require.True(t, w.trusts(next), "callers trust the next CA before Pods use it")

	c := w.reconcile()
	require.Equal(t, cert.Keep, c.Done)
	require.Equal(t, cert.DefaultSettle, c.After)
	w.now = w.now.Add(cert.DefaultSettle)
	require.Equal(t, cert.Promote, w.reconcile().Done)
	require.Equal(t, string(next), string(w.secret().Data[cert.KeyCA]))
	require.NotEqual(t, first.Hash, cert.Hash(next))
	require.True(t, w.has(cert.Hash(next)), "Pods were rolled")
	require.True(t, w.trusts(old), "some Pods may still use the old CA")

	require.Equal(t, cert.Retire, w.reconcile().Done)
	require.False(t, w.trusts(old))
	require.True(t, w.trusts(next))
	require.Equal(t, cert.Keep, w.reconcile().Done)
	require.Len(t, w.secret().Data, 3)
}

func TestEditedCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.reconcile()
	old := w.secret().Data[cert.KeyCA]
	edit := func(data map[string][]byte) {
		secret := w.secret()
		for k, v := range data {
			secret.Data[k] = v
		}
		require.NoError(t, cluster.Client.Update(t.Context(), secret))
	}
	other, err := cert.Policy{}.Issue(w.now, cert.Hosts(name, w.Namespace))
	require.NoError(t, err)
	for _, tc := range []struct {
		name   string
		edit   func()
		reason cert.Reason
	}{
		{"the key", func() { edit(map[string][]byte{cert.KeyPrivate: other.Key.PEM()}) }, cert.Tampered},
		{"a complete pair", func() { edit(cert.Set{Current: other}.Data()) }, cert.CAChanged},
		{"a deleted Secret", func() { require.NoError(t, cluster.Client.Delete(t.Context(), w.secret())) }, cert.Missing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := w.configurations()["a.demo.acme.io"].Webhooks[0].ClientConfig.CABundle
			tc.edit()
			c := w.reconcile()
			require.Equal(t, cert.Replace, c.Done)
			require.Equal(t, tc.reason, c.Reason)
			require.False(t, w.trusts(other.CA), "a CA that Remit did not issue never reaches a caBundle")
			require.True(t, w.trusts(before) || w.trusts(old), "Pods that have not been rolled yet are still trusted")
			require.NotEqual(t, first.Hash, c.Hash)
			require.Equal(t, cert.Retire, w.reconcile().Done)
			require.Equal(t, cert.Keep, w.reconcile().Done)
			old = w.secret().Data[cert.KeyCA]
		})
	}
}

func TestAnOutdatedCacheDoesNotIssueTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, stale := w.plan()
	first, err := w.certify()
	require.NoError(t, err)
	second, err := w.installer().Certify(t.Context(), p, stale, p.Served[0], permitted)
	require.NoError(t, err)
	require.Equal(t, cert.Keep, second.Done)
	require.Equal(t, first.Hash, second.Hash)
}

func TestForeignObjectsAreNotChanged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		obj  func(w *world) client.Object
	}{
		{"a Secret", func(w *world) client.Object {
			return &corev1.Secret{ObjectMeta: w.Meta(cert.SecretName(name)), StringData: map[string]string{"x": "y"}}
		}},
		{"a Service", func(w *world) client.Object {
			return &corev1.Service{ObjectMeta: w.Meta(cert.ServiceName(name)), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			obj := tc.obj(w)
			w.Create(obj)
			_, err := w.certify()
			require.True(t, apply.IsCollision(err), "%v", err)
			again, ok := obj.DeepCopyObject().(client.Object)
			require.True(t, ok)
			require.NoError(t, w.Get(obj.GetName(), again))
			require.Equal(t, obj.GetResourceVersion(), again.GetResourceVersion())
		})
	}
	t.Run("a configuration", func(t *testing.T) {
		w := newWorld(t)
		foreign := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		w.reconcile()
		foreign.Name = w.configurations()["a.demo.acme.io"].Name
		require.NoError(t, cluster.Client.Delete(t.Context(), foreign))
		foreign.UID, foreign.ResourceVersion = "", ""
		w.Create(foreign)
		p, live := w.plan()
		_, err := w.installer().Ensure(t.Context(), p, live, name)
		require.True(t, apply.IsCollision(err), "%v", err)
	})
}

func TestAnUpgradeSwitchesOffOnlyChangedWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.csv.Spec.WebhookDefinitions = append(w.csv.Spec.WebhookDefinitions, w.hook("c.demo.acme.io"))
	})
	w.reconcile()
	before := w.configurations()
	w.replace(func(c *csv) {
		c.Spec.WebhookDefinitions = []description{w.hook("a.demo.acme.io"), w.hook("b.demo.acme.io"), w.hook("d.demo.acme.io")}
		c.Spec.WebhookDefinitions[1].WebhookPath = ptr.To("/v2")
	})
	p, live := w.plan()
	changed, err := w.installer().Off(t.Context(), p, live, name, func(context.Context) error { return errors.New("it is refused") })
	require.ErrorContains(t, err, "it is refused")
	require.Empty(t, changed)
	require.Equal(t, before, w.configurations(), "nothing would switch them on again")
	changed, err = w.installer().Off(t.Context(), p, live, name, accepted)
	require.NoError(t, err)
	require.Len(t, changed, 2)
	off := w.configurations()
	require.Equal(t, before["a.demo.acme.io"], off["a.demo.acme.io"], "unchanged webhooks stay on")
	require.Empty(t, off["b.demo.acme.io"].Webhooks, "changed webhooks are switched off")
	require.Equal(t, before["b.demo.acme.io"].UID, off["b.demo.acme.io"].UID)
	require.NotContains(t, off, "c.demo.acme.io", "unwanted webhooks are deleted")
	require.NotContains(t, off, "d.demo.acme.io")

	w.reconcile()
	after := w.configurations()
	require.Len(t, after, 3)
	require.Equal(t, "/v2", *after["b.demo.acme.io"].Webhooks[0].ClientConfig.Service.Path)
	require.Equal(t, "demo.v2.0.0", after["a.demo.acme.io"].Labels["olm.owner"])
}

func TestWebhooksFollowTheTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reconcile()
	w.group.Targets = append(w.group.Targets, "another")
	w.reconcile()
	got := w.configurations()["a.demo.acme.io"].Webhooks[0].NamespaceSelector.MatchExpressions[0].Values
	require.ElementsMatch(t, []string{w.Namespace, "another"}, got)
	w.group.Targets = nil
	w.reconcile()
	require.Empty(t, w.configurations()["a.demo.acme.io"].Webhooks)
}

func TestInjectedCABundlesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config = &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{serving.InjectCAFrom: w.Namespace + "/demo"}}
	p, live := w.plan()
	require.True(t, p.Outsourced())
	c, err := w.installer().Certify(t.Context(), p, live, p.Served[0], permitted)
	require.NoError(t, err)
	require.Empty(t, c.Hash)
	require.Error(t, w.Get(cert.SecretName(name), &corev1.Secret{}), "Remit issues nothing")
	ensure := func() {
		p, live := w.plan()
		_, err := w.installer().Ensure(t.Context(), p, live, name)
		require.NoError(t, err)
	}
	ensure()
	config := w.configurations()["a.demo.acme.io"]
	require.Equal(t, w.Namespace+"/demo", config.Annotations[serving.InjectCAFrom])
	require.Empty(t, config.Webhooks[0].ClientConfig.CABundle)

	pair, err := cert.Policy{}.Issue(w.now, cert.Hosts(name, w.Namespace))
	require.NoError(t, err)
	config.Webhooks[0].ClientConfig.CABundle = pair.CA
	require.NoError(t, cluster.Client.Update(t.Context(), config), "the test acts as a CA injector")
	w.group.Targets = append(w.group.Targets, "another")
	ensure()
	config = w.configurations()["a.demo.acme.io"]
	require.Len(t, config.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values, 2)
	require.Equal(t, string(pair.CA), string(config.Webhooks[0].ClientConfig.CABundle))
}

func TestADeniedRotationWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.reconcile()
	before := w.versions()
	w.now = w.now.Add(cert.DefaultLife / 10 * 9)
	p, live := w.plan()
	var asked []string
	c, err := w.installer().Certify(t.Context(), p, live, p.Served[0], func(needs ...hooks.Need) error {
		for _, n := range needs {
			kind, _, _ := strings.Cut(n.Object, " ")
			asked = append(asked, kind)
		}
		return fmt.Errorf("no")
	})
	require.NoError(t, err)
	require.ErrorContains(t, c.Blocked, "no")
	require.Equal(t, cert.NearExpiry, c.Reason)
	require.Equal(t, first.Hash, c.Hash)
	require.InDelta(t, 73, c.Expires.Sub(w.now).Hours()/24, 0.1)
	slices.Sort(asked)
	require.Equal(t, []string{"Deployment", "Secret", "Service", "ValidatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, asked)
	require.Equal(t, before, w.versions())
}

func TestThePlansNeedsAreSufficient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.csv.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Group: "api." + w.api, Version: "v1", Kind: "Thing", DeploymentName: name, ContainerPort: 5443}}
	})
	p, _ := w.plan()
	needs, err := p.Needs()
	require.NoError(t, err)
	for _, n := range needs {
		w.Grant(n.Namespace, n.Rules...)
		if n.Grants == nil {
			continue
		}
		if n.Grants.GetKind() == "Role" {
			w.Grant(n.Namespace, rule("", "secrets", []string{cert.SecretName(name)}, "get"))
			continue
		}
		ref, _, _ := unstructured.NestedStringMap(n.Grants.Object, "roleRef")
		w.Grant(n.Namespace, rule("rbac.authorization.k8s.io", map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref["kind"]], []string{ref["name"]}, "bind"))
	}
	w.Grant(w.Namespace, rule("apps", "deployments", []string{name}, "create", "get", "patch", "delete"))
	w.account = w.asAccount()
	w.reconcile()
	w.now = w.now.Add(cert.DefaultLife/3*2 + time.Hour)
	require.Equal(t, cert.Stage, w.reconcile().Done)
	require.Equal(t, cert.Keep, w.reconcile().Done)
	w.now = w.now.Add(cert.DefaultSettle)
	require.Equal(t, cert.Promote, w.reconcile().Done)
	w.replace(func(c *csv) { c.Spec.WebhookDefinitions[0].WebhookPath = ptr.To("/v2") })
	require.Equal(t, cert.Retire, w.reconcile().Done)

	objs, crds, err := hooks.Remains(t.Context(), cluster.Client, w.owner)
	require.NoError(t, err)
	require.Len(t, objs, 3)
	require.Empty(t, crds)
	w.csv.Spec.WebhookDefinitions, w.csv.Spec.APIServiceDefinitions.Owned = nil, nil
	p, live := w.plan()
	_, err = w.installer().Prune(t.Context(), p, live)
	require.NoError(t, err)
	require.Empty(t, w.configurations())
}

// Failed reconciles are retried. If each retry issued a new pair, it would also change the Service and all callers, and
// the event for the Service would immediately trigger the next reconcile.
func TestAnUnstoredPairIsNotIssuedAgain(t *testing.T) {
	t.Parallel()
	t.Run("initial install", func(t *testing.T) {
		w := newWorld(t)
		w.Grant(w.Namespace, rule("", "services", nil, "get", "create", "patch"), rule("", "secrets", nil, "get"))
		w.account = w.asAccount()
		service := func() string {
			_, err := w.certify()
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			got := &corev1.Service{}
			require.NoError(t, w.Get(cert.ServiceName(name), got))
			return got.ResourceVersion
		}
		first := service()
		require.Equal(t, first, service())
		require.Equal(t, first, service())
		w.account = cluster.Client
		c, err := w.certify()
		require.NoError(t, err)
		require.Equal(t, cert.Replace, c.Done)
		require.Equal(t, first, w.versions()["*v1.Service"])
		require.Len(t, w.secret().Data, 3, "the unstored CA was never used and is not a previous CA")
	})
	t.Run("during a rotation", func(t *testing.T) {
		w := newWorld(t)
		w.reconcile()
		secret := w.secret()
		secret.Immutable = ptr.To(true)
		require.NoError(t, cluster.Client.Update(t.Context(), secret))
		w.now = w.now.Add(cert.DefaultLife/3*2 + time.Hour)
		versions := func() map[string]string {
			_, err := w.certify()
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			return w.versions()
		}
		first := versions()
		require.Equal(t, first, versions())
		require.Equal(t, first, versions())

		require.NoError(t, cluster.Client.Delete(t.Context(), secret))
		require.Equal(t, cert.Replace, w.reconcile().Done)
		kept := w.secret().Data[cert.KeyCA]
		require.Equal(t, cert.Retire, w.reconcile().Done)
		w.now = w.now.Add(cert.DefaultLife/3*2 + time.Hour)
		require.Equal(t, cert.Stage, w.reconcile().Done)
		require.NotEqual(t, string(kept), string(w.secret().Data["next.olmCAKey"]), "a stored pair is not kept in memory")
	})
}

// If only the previous version owned the Secret, the Secret would be deleted with that version, and the Pods would
// have to be rolled again.
func TestASecretIsHandedOverToTheNextVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reconcile()
	before := w.secret()
	w.replace(func(*csv) {})
	require.Equal(t, cert.Keep, w.reconcile().Done)
	after := w.secret()
	require.Equal(t, before.UID, after.UID)
	require.Equal(t, before.Data, after.Data)
	require.Len(t, after.OwnerReferences, 1)
	require.Equal(t, w.owner.UID, after.OwnerReferences[0].UID)
	require.Equal(t, w.csv.Name, after.Labels["olm.owner"])
	versions := w.versions()
	w.reconcile()
	require.Equal(t, versions, w.versions())
}

func TestADeploymentIsCertifiedOnceItsCAIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, live := w.plan()
	require.False(t, p.Certified(name))
	_, err := w.installer().Certify(t.Context(), p, live, p.Served[0], permitted)
	require.NoError(t, err)
	require.True(t, p.Certified(name))
	require.False(t, live.Current(p, name))
	w.reconcile()
	p, live = w.plan()
	require.True(t, live.Current(p, name))
	w.replace(func(*csv) {})
	p, live = w.plan()
	require.False(t, live.Current(p, name), "the Deployment belongs to the previous version")
	w.config = &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{serving.InjectCAFrom: w.Namespace + "/demo"}}
	p, _ = w.plan()
	require.True(t, p.Certified(name), "a certificate tool manages the caBundle")
}

// The rules that are written must match the permissions that the account was required to have, even if the scope of a
// resource changes in the meantime.
func TestAPlanLooksUpEachScopeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, answer := 0, webhook.Either
	p, err := hooks.New(hooks.Input{CSV: w.csv, Owner: w.owner, Group: w.group, Scopes: func(string, string) webhook.Scope {
		asked++
		return answer
	}})
	require.NoError(t, err)
	var scopes []string
	needs, err := p.Needs()
	require.NoError(t, err)
	for _, n := range needs {
		if strings.HasPrefix(n.Cause, "intercept") {
			scopes = append(scopes, n.Namespace)
		}
	}
	require.Equal(t, []string{w.Namespace, w.Namespace}, scopes)
	answer = webhook.Cluster
	require.Empty(t, p.Intercepts(&w.csv.Spec.WebhookDefinitions[0]).Cluster)
	_, err = w.installer().Ensure(t.Context(), p, &hooks.Live{}, name)
	require.NoError(t, err)
	for _, c := range w.configurations() {
		require.EqualValues(t, "Namespaced", *c.Webhooks[0].Rules[0].Scope)
	}
	require.Equal(t, 1, asked)
}

// A CSV can have 500 webhooks, and Has is called for each of them.
func TestWebhooksAreRenderedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.csv.Spec.WebhookDefinitions = nil
	for i := range 50 {
		w.csv.Spec.WebhookDefinitions = append(w.csv.Spec.WebhookDefinitions, w.hook(fmt.Sprintf("h%d.demo.acme.io", i)))
	}
	rendered := 0
	p, err := hooks.New(hooks.Input{CSV: w.csv, Owner: w.owner, Group: w.group, Holds: func(rbacv1.PolicyRule) bool {
		rendered++
		return false
	}})
	require.NoError(t, err)
	live, err := hooks.Gather(t.Context(), cluster.Client, p)
	require.NoError(t, err)
	observe := func() {
		_, err := p.Needs()
		require.NoError(t, err)
		for i := range w.csv.Spec.WebhookDefinitions {
			live.Has(p, &w.csv.Spec.WebhookDefinitions[i])
		}
		_, err = live.Surplus(p)
		require.NoError(t, err)
	}
	observe()
	require.Equal(t, 50, rendered)
	_, err = w.installer().Certify(t.Context(), p, live, p.Served[0], permitted)
	require.NoError(t, err)
	observe()
	require.Equal(t, 100, rendered, "the webhooks are rendered again, with the caBundle")
	_, err = w.installer().Ensure(t.Context(), p, live, name)
	require.NoError(t, err)
	require.True(t, w.trusts(w.secret().Data[cert.KeyCA]))
	require.Equal(t, 100, rendered)
}

func TestClusterScopedObjectsAreOwnedByTheNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reconcile()
	namespace := &corev1.Namespace{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: w.Namespace}, namespace))
	for _, c := range w.configurations() {
		require.Equal(t, []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Namespace", Name: w.Namespace, UID: namespace.UID, Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false),
		}}, c.OwnerReferences)
	}
}
