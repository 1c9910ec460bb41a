package installplan

import (
	"errors"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install/serving"
)

// patchCRDs is the rule that allows the demo's account to convert its CustomResourceDefinition.
var patchCRDs = rbacv1.PolicyRule{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"patch"}}

const (
	byWriter  = "crds: apply CustomResourceDefinition things.example.com"
	byAccount = "acct: apply CustomResourceDefinition things.example.com"
	// asksToPatch is the request that asks the API server about a permission of the account.
	asksToPatch = "remit: review patch customresourcedefinitions"
	misses      = `cannot patch resource "customresourcedefinitions" in API group "apiextensions.k8s.io" at the cluster scope (named "things.example.com")`
)

// configured sets annotations in the config of the demo's Subscription.
func configured(annotations map[string]string) change {
	return with(&operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "sub"},
		Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "demo", Config: &operatorsv1alpha1.SubscriptionConfig{Annotations: annotations}}})
}

// converted is a world with a CRD account, in which the demo converts its CustomResourceDefinition.
func converted(t *testing.T, changes ...change) *world {
	w := newWorld(t, append([]change{crdAccount, with(account("remit", "crds")), withoutCRDs(), withHook(demoConversion)}, changes...)...)
	everywhere(w)
	return w
}

// completed establishes the CustomResourceDefinition that the plan has written, and returns the definition and the plan's effect.
func (w *world) completed() (*apiextensionsv1.CustomResourceDefinition, effect) {
	w.t.Helper()
	w.establish("things.example.com")
	out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}
	w.Get(out)
	return out, w.reconcile()
}

// The CRD account writes the conversion together with the CustomResourceDefinition, so the API server does not ask whether the
// tenant's account may set it.
func TestTheCRDAccountSetsOnlyConversionsThatTheAccountMaySet(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{serving.InjectCAFrom: "kube-system/x"}
	unanswered := errors.New("no answer")
	const undecided = "cannot determine whether ServiceAccount ns/acct may convert CustomResourceDefinition things.example.com: request an access review: no answer; " +
		"the installation's CRD account sets only conversions that the account may set"
	const invalidConfig = "spec.config of the Subscription is invalid for ClusterServiceVersion ns/demo.v1.0.0: webhooks and APIs cannot be served: " +
		`annotation cert-manager.io/inject-ca-from: "kube-system/x" is not in namespace "ns"`
	for name, row := range map[string]struct {
		given []change
		// writes is the write of the CustomResourceDefinition, or "" if the plan waits with a message that contains says.
		writes, says string
	}{
		"which it may not":                                     {nil, "", misses},
		"which it may":                                         {[]change{withoutCRDs(patchCRDs)}, byWriter, ""},
		"which another authorizer allows":                      {[]change{func(w *world) { w.Allow("patch customresourcedefinitions") }}, byWriter, ""},
		"which is unknown":                                     {[]change{refusing(asksToPatch, unanswered)}, "", undecided},
		"which it may not, with an invalid config":             {[]change{configured(elsewhere)}, "", invalidConfig},
		"which it may, with an invalid config":                 {[]change{configured(elsewhere), withoutCRDs(patchCRDs)}, "", invalidConfig},
		"which it may not, with the certificate of a tool":     {[]change{configured(map[string]string{serving.InjectCAFrom: "ns/x"})}, "", misses},
		"which it may, with the certificate of a tool":         {[]change{configured(map[string]string{serving.InjectCAFrom: "ns/x"}), withoutCRDs(patchCRDs)}, byWriter, ""},
		"which is unknown, and the account writes definitions": {[]change{func(w *world) { w.options.CRDAccount.Name, w.options.CRDAccount.Namespace = "", "" }, refusing(asksToPatch, unanswered)}, byAccount, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := converted(t, row.given...)
			if row.writes == byAccount {
				w.Allow("create customresourcedefinitions")
			}
			out := w.reconcile()
			written := withoutEvents(out.writes)
			if row.writes == "" {
				require.Contains(t, out.message, row.says)
				require.Empty(t, slices.DeleteFunc(written, func(r string) bool { return r == writesReport }), "nothing but the report is written")
				require.Equal(t, row.says != misses, out.after == minRetryDelay, "no watch reports the change")
				return
			}
			require.Contains(t, written, row.writes)
			definition, out := w.completed()
			require.Equal(t, apiextensionsv1.WebhookConverter, definition.Spec.Conversion.Strategy)
			require.Equal(t, operatorsv1alpha1.InstallPlanPhaseComplete, out.phase, out.message)
		})
	}
}

func TestAPlanWithACorrectedConfigIsExecuted(t *testing.T) {
	t.Parallel()
	for name, approval := range map[string]change{"automatic": func(*world) {}, "manual": manual(false)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := converted(t, approval, configured(map[string]string{serving.InjectCAFromSecret: "other/x"}))
			out := w.reconcile()
			require.Contains(t, out.message, `"other/x" is not in namespace "ns"`)
			require.Equal(t, minRetryDelay, out.after)
			require.False(t, w.Has(&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo.v1.0.0"}}))

			configured(nil)(w)
			out = w.reconcile()
			require.Equal(t, "True AccountLacksPermissions", out.missing)
			require.Zero(t, out.after)
			w.Get(w.plan)
			require.Contains(t, w.plan.Status.GetCondition(typePermissionsMissing).Message, misses)

			withoutCRDs(patchCRDs)(w)
			w.plan.Spec.Approved = true
			w.Put(w.plan)
			require.Contains(t, w.reconcile().writes, byWriter)
			_, out = w.completed()
			require.Equal(t, operatorsv1alpha1.InstallPlanPhaseComplete, out.phase, out.message)
			require.Equal(t, "False PermissionsHeld", out.missing)
		})
	}
}

// The config matters only to what serves webhooks or APIs.
func TestAnOperatorWithoutWebhooksIgnoresTheIssuerInTheConfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t, configured(map[string]string{serving.InjectCAFrom: "kube-system/x"}))
	require.Equal(t, operatorsv1alpha1.InstallPlanPhaseComplete, w.reconcile().phase)
}
