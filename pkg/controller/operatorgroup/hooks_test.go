package operatorgroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

const hookDeleted = "delete ValidatingWebhookConfiguration gone"

// callers is a cluster with a webhook for ConfigMaps of t2, whose ClusterServiceVersion was deleted without it.
type callers struct {
	*leftovers
	hook *admissionregistrationv1.ValidatingWebhookConfiguration
}

func newCallers(t *testing.T, pkg string) *callers {
	t.Helper()
	c := &callers{leftovers: &leftovers{cluster: newCluster(t), clock: clocktesting.NewFakePassiveClock(time.Now())}}
	c.r.Clock = c.clock
	c.r.Remover = func(context.Context, rbac.Listers) (client.Client, error) { return c.Client("remover"), nil }
	c.hook = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name:         "v.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "t1", Name: "operator"}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"t2"}}}},
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
	}}}
	proofs.Mark(c.hook, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "t1"}, CSV: "gone.v1", Proofs: proofs.Keys()})
	c.Put(c.hook)
	return c
}

// revoke leaves the account only permission to delete webhook configurations.
func (c *callers) revoke() {
	c.grant(rbacv1.PolicyRule{APIGroups: []string{admissionregistrationv1.GroupName}, Resources: []string{"validatingwebhookconfigurations"}, Verbs: []string{"delete"}})
}

func (c *callers) forbid(user string) {
	c.Refuse(user+": "+hookDeleted, errorOf("validatingwebhookconfigurations"))
}

// calls reports whether the API server calls the webhook.
func (c *callers) calls() bool { return c.Has(c.hook) }

func unhooked(writes []string) []string {
	return slices.DeleteFunc(writes, func(w string) bool { return !strings.Contains(w, hookDeleted) || strings.Contains(w, "(refused)") })
}

func TestAWebhookWithoutACSVIsReportedAndRemoved(t *testing.T) {
	c := newCallers(t, "gone")
	require.Empty(t, c.pass(time.Hour), "the account permits it")
	c.revoke()
	require.Empty(t, unhooked(c.pass(30*time.Second)))
	got := c.condition(names.ConditionExceedsAccount)
	require.Equal(t, ReasonGracePeriod, got.Reason)
	for _, part := range []string{
		`ServiceAccount t1/acct is missing permissions: those to read and write what webhook "v.example.com" in namespace t2 intercepts; ` +
			`operators have them through ValidatingWebhookConfiguration gone, which Remit has created: at `,
		"To remove them now, run: kubectl delete validatingwebhookconfiguration gone",
	} {
		require.Contains(t, got.Message, part)
	}
	require.Empty(t, unhooked(c.pass(29*time.Second)))
	require.Equal(t, []string{"acct: " + hookDeleted}, unhooked(c.pass(time.Second)))
	require.False(t, c.calls())
	require.Equal(t, ReasonRemoved, c.condition(names.ConditionExceedsAccount).Reason)
}

// Users choose labels and OperatorGroups. None of these keeps a webhook that exceeds the accounts.
func TestWhatDoesNotKeepAWebhook(t *testing.T) {
	for name, row := range map[string]struct {
		given func(*callers)
		after time.Duration
		want  string
	}{
		"nothing":                             {given: func(c *callers) { c.forbid("acct") }},
		"an account that may still delete it": {given: func(*callers) {}, want: "acct"},
		"a second OperatorGroup":              {given: func(c *callers) { c.second("acct") }, want: "acct"},
		"a second OperatorGroup, whose account may delete it": {given: func(c *callers) {
			c.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "second", UID: "second"}})
			c.second("second")
			c.forbid("acct")
		}, want: "second"},
		"an account that may not, as the default account": {given: func(c *callers) {
			c.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t3", Name: "main", UID: "main"}})
			c.r.Default.Account = types.NamespacedName{Namespace: "t3", Name: "main"}
			c.forbid("acct")
		}, want: "main"},
		"no OperatorGroup": {given: func(c *callers) { c.Delete(c.og) }},
		"no OperatorGroup, and a recorded account that may delete it": {given: func(c *callers) {
			c.record("t1/acct")
			c.Delete(c.og)
		}, want: "acct"},
		"an OperatorGroup whose deletion is delayed": {given: func(c *callers) {
			recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) { og.Finalizers = []string{"example.com/delay"} })
			c.Delete(c.og)
		}, want: "acct"},
		"a CSV with the same name": {given: func(c *callers) { c.own(func(client.Object) {}) }, after: time.Minute, want: "acct"},
		"a CSV that is a copy": {given: func(c *callers) {
			c.own(func(csv client.Object) { csv.SetLabels(map[string]string{names.LabelCopiedFrom: "x"}) })
		}, want: "acct"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCallers(t, "gone")
			c.settle()
			c.revoke()
			row.given(c)
			require.Empty(t, unhooked(c.pass(time.Minute+row.after-time.Second)))
			if row.after > 0 {
				require.Empty(t, unhooked(c.pass(0)))
			}
			if row.want == "" {
				row.want = "remover"
			}
			require.Equal(t, []string{row.want + ": " + hookDeleted}, unhooked(c.pass(time.Second)))
			require.False(t, c.calls())
		})
	}
}

// record makes the other ClusterServiceVersion of the namespace record an account.
func (c *callers) record(account string) {
	csv := c.csv.DeepCopy()
	csv.Annotations, csv.ResourceVersion = map[string]string{names.AnnotationAccount: account}, ""
	c.Put(csv)
}

func TestWhichWebhooksWithoutACSVStay(t *testing.T) {
	for name, given := range map[string]func(*callers){
		"what the API server allows": func(c *callers) { c.Allow("*") },
		"what a user has created": func(c *callers) {
			recorded.Edit(c.Server, c.hook, func(h *admissionregistrationv1.ValidatingWebhookConfiguration) { h.Annotations = nil })
		},
		"what the annotation keeps": func(c *callers) { c.annotate(names.AnnotationKeepExcess, "true") },
		"what OLM manages":          func(c *callers) { c.annotate(names.AnnotationManagedBy, names.ManagedByOLM) },
		"what the account of a second OperatorGroup permits": func(c *callers) {
			c.second("sighted")
			c.sighted()
		},
		"what the recorded account permits, without an OperatorGroup": func(c *callers) {
			c.record("t1/sighted")
			c.sighted()
			c.Delete(c.og)
		},
		"what the API server has recorded": func(c *callers) {
			c.sighted()
			c.Delete(c.og)
			c.settle()
			c.Lag(c.csv.DeepCopy())
			c.record("t1/sighted")
		},
		"what the default account has, without an OperatorGroup": func(c *callers) {
			c.r.Default.Account = types.NamespacedName{Namespace: "t1", Name: "acct"}
			c.Delete(c.og)
		},
		"what the API server cannot decide": func(c *callers) {
			c.Refuse("remit: review create configmaps", errors.New("down"))
			c.Refuse("remit: review get configmaps", errors.New("down"))
		},
		"another authorizer allows it, but denied it before": func(c *callers) {
			c.settle()
			c.Allow("*")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCallers(t, "gone")
			c.settle()
			c.revoke()
			given(c)
			require.Empty(t, unhooked(c.pass(time.Minute)))
			require.Empty(t, unhooked(c.pass(time.Hour)))
			require.True(t, c.calls())
		})
	}
}

// sighted permits the account of this name what the webhook intercepts.
func (c *callers) sighted() {
	c.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "sees"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "sees"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "sees"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "sighted"}}})
}

// The component label does not contain a long package name. The proof and the Services of the webhooks decide.
func TestAWebhookOfALongPackageNameIsRemoved(t *testing.T) {
	for service, want := range map[string]bool{"t1": false, "t2": true} {
		c := newCallers(t, strings.Repeat("long-", 30)+"name")
		recorded.Edit(c.Server, c.hook, func(h *admissionregistrationv1.ValidatingWebhookConfiguration) {
			h.Webhooks[0].ClientConfig.Service.Namespace = service
		})
		c.settle()
		c.revoke()
		c.pass(time.Minute)
		require.Equal(t, want, c.calls(), service)
	}
}

func TestAWebhookThatNobodyMayRemove(t *testing.T) {
	c := newCallers(t, "gone")
	c.r.Remover = nil
	c.forbid("acct")
	c.settle()
	c.revoke()
	c.pass(time.Minute)
	got := c.condition(names.ConditionExceedsAccount)
	require.Equal(t, ReasonNotRemoved, got.Reason)
	require.Contains(t, got.Message, "to remove them, run: kubectl delete validatingwebhookconfiguration gone")
	require.True(t, c.calls())
}

func TestAWebhookWakesItsNamespace(t *testing.T) {
	c := newCallers(t, "gone")
	require.Equal(t, []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(c.og)}}, c.r.calling(t.Context(), c.hook))
	c.Delete(c.og)
	c.settle()
	require.Equal(t, []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: "t1"}}}, c.r.calling(t.Context(), c.hook))
	c.hook.Labels[names.LabelOwnerKind] = "Subscription"
	require.Empty(t, c.r.calling(t.Context(), c.hook))
}

// Webhooks do not wait for the grace period of permissions.
func TestPermissionsKeepTheirGracePeriodNextToAWebhook(t *testing.T) {
	c := newLeftovers(t, "gone")
	hooked := newCallers(t, "gone")
	c.Put(hooked.hook.DeepCopy())
	c.settle()
	c.grant()
	require.Equal(t, []string{"acct: " + hookDeleted}, unhooked(c.pass(time.Minute)))
	require.True(t, c.isBound())
	require.Empty(t, removals(c.pass(excess.DefaultGrace-time.Minute-time.Second)))
	require.NotEmpty(t, removals(c.pass(time.Second)))
}

// The default account does not bound webhooks, whatever it may read and write.
func TestWebhooksOfTheDefaultAccountStay(t *testing.T) {
	c := newCallers(t, "gone")
	c.r.Default.Account = types.NamespacedName{Namespace: "t1", Name: "acct"}
	recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = "" })
	c.settle()
	c.revoke()
	c.pass(time.Minute)
	c.pass(time.Hour)
	require.True(t, c.calls())
}
