package clusterextension

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// unenrolled is a Clients that may not act as any identity.
type unenrolled struct{}

func (unenrolled) As(context.Context, scoped.Identity) (client.WithWatch, error) {
	return nil, &scoped.Error{Reason: scoped.AccountNotEnrolled, Message: "not enrolled"}
}
func (unenrolled) Connect(scoped.Identity) (*rest.Config, *http.Client, error) { return nil, nil, nil }

// leftHook is a cluster with a webhook for ConfigMaps of the namespace ns, whose ClusterExtension demo was deleted without it.
type leftHook struct {
	*recorded.Server
	t     *testing.T
	r     *Reconciler
	clock *testclock.FakePassiveClock
	hook  *admissionregistrationv1.ValidatingWebhookConfiguration
}

func newLeftHook(t *testing.T) *leftHook {
	t.Helper()
	now := metav1.Now().Rfc3339Copy()
	c := &leftHook{t: t, clock: testclock.NewFakePassiveClock(now.Time)}
	c.hook = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "hook", CreationTimestamp: now}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name:         "v.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "operator"}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"ns"}}}},
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
	}}}
	owner := assess.Owner(&olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "earlier", CreationTimestamp: now}}, "")
	owner.Proofs = proofs.Keys()
	proofs.Mark(c.hook, owner)
	c.Server = recorded.New(t, kit.IndexOwners, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, c.hook)
	c.r = &Reconciler{
		Options: Options{
			Client: c.Cached("remit"), Live: c.Client("remit"), Clients: unenrolled{}, RBAC: c.RBAC(), Proofs: proofs.Keys(), Recorder: c.Recorder(), Clock: c.clock,
			Grace: excess.DefaultGrace, Remover: func(context.Context, rbac.Listers) (client.Client, error) { return c.Client("remover"), nil },
		},
		confirmer: &preflight.Confirmer{Ask: preflight.Reviews(c.Client("remit"))}, unserved: kinds.NewUnserved(c.clock),
		ages: &excess.Ages{}, told: &keyed.Map[string, string]{}, attempts: &excess.Timers[string]{}, unhooked: &keyed.Map[string, types.UID]{},
	}
	return c
}

// pass lets time pass, and returns the deletions that follow.
func (c *leftHook) pass(d time.Duration) []string {
	c.t.Helper()
	c.clock.SetTime(c.clock.Now().Add(d))
	_, err := c.r.leftovers(c.t.Context(), "demo")
	require.NoError(c.t, err)
	return slices.DeleteFunc(c.Writes(), func(w string) bool { return !strings.Contains(w, "remover: delete ") })
}

func TestAWebhookWithoutAnExtensionIsRemoved(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]func(*leftHook){
		"no extension": func(*leftHook) {},
		"a later one":  func(c *leftHook) { c.Put(laterDemo(nil)) },
		"one that is deleted": func(c *leftHook) {
			c.Put(laterDemo(func(e *olmv1.ClusterExtension) { e.Finalizers = []string{"example.com/delay"} }))
			c.Delete(laterDemo(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newLeftHook(t)
			given(c)
			require.Empty(t, c.pass(0))
			require.Empty(t, c.pass(30*time.Second))
			require.Contains(t, c.r.told.Get("demo"), `is missing permissions: those to read and write what webhook "v.example.com" in namespace ns intercepts; `+
				"an earlier installation has them through ValidatingWebhookConfiguration gone: at ")
			require.Empty(t, c.pass(29*time.Second))
			require.Equal(t, []string{"remover: delete ValidatingWebhookConfiguration gone"}, c.pass(time.Second))
			require.False(t, c.Has(c.hook))
		})
	}
}

// laterDemo returns an extension that was created after the one that the webhook belonged to.
func laterDemo(edit func(*olmv1.ClusterExtension)) *olmv1.ClusterExtension {
	return extension("demo", func(e *olmv1.ClusterExtension) {
		e.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
		if edit != nil {
			edit(e)
		}
	})
}

func TestWhichWebhooksWithoutAnExtensionStay(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]func(*leftHook){
		"without remit-remover":      func(c *leftHook) { c.r.Remover = nil },
		"what the identity may do":   func(c *leftHook) { c.permit() },
		"what the API server allows": func(c *leftHook) { c.Allow("*") },
		"what a user has created": func(c *leftHook) {
			recorded.Edit(c.Server, c.hook, func(h *admissionregistrationv1.ValidatingWebhookConfiguration) { h.Annotations = nil })
		},
		"what the annotation keeps": func(c *leftHook) {
			c.Put(laterDemo(func(e *olmv1.ClusterExtension) { e.Annotations = map[string]string{names.AnnotationKeepExcess: "true"} }))
		},
		"another authorizer allows it, but denied it before": func(c *leftHook) {
			c.pass(0)
			c.Allow("*")
		},
		"the webhook was replaced": func(c *leftHook) {
			c.pass(0)
			c.r.Remover = func(context.Context, rbac.Listers) (client.Client, error) {
				recorded.Edit(c.Server, c.hook, func(h *admissionregistrationv1.ValidatingWebhookConfiguration) { h.Annotations = nil })
				return c.Client("remover"), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newLeftHook(t)
			given(c)
			require.Empty(t, c.pass(0))
			require.Empty(t, c.pass(time.Minute))
			require.Empty(t, c.pass(time.Hour))
			require.True(t, c.Has(c.hook))
		})
	}
}

// permit permits the user of the extension what the webhook intercepts.
func (c *leftHook) permit() {
	c.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "sees"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "sees"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sees"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "olm:clusterextension:demo"}}})
}

// The optional identity does not list webhooks in every run of an extension.
func TestLooksOnceForTheWebhooksOfAnEarlierExtension(t *testing.T) {
	t.Parallel()
	c := newLeftHook(t)
	c.Delete(c.hook)
	c.Put(laterDemo(nil))
	opened := 0
	c.r.Remover = func(context.Context, rbac.Listers) (client.Client, error) {
		opened++
		return c.Client("remover"), nil
	}
	for range 3 {
		require.Empty(t, c.pass(time.Minute))
	}
	require.Equal(t, 1, opened)
	c.Delete(laterDemo(nil))
	c.pass(time.Minute)
	c.Put(laterDemo(func(e *olmv1.ClusterExtension) { e.UID = "third" }))
	c.pass(time.Minute)
	require.Equal(t, 3, opened)
}
