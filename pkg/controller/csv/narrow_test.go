package csv

import (
	"errors"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const hookNamed = "ValidatingWebhookConfiguration a.example.com-#"

// narrowed is the write that narrows the demo's webhook, and its event.
const narrowed = "acct: apply " + hookNamed

// everythingBut gives the account all cluster-wide permissions except those for the API that the demo's webhook intercepts.
func everythingBut(w *world) {
	w.put(rbacv1.PolicyRule{APIGroups: []string{"", "apps", "admissionregistration.k8s.io", rbacv1.GroupName, "operators.coreos.com", "apiextensions.k8s.io"},
		Resources: []string{"*"}, Verbs: []string{"*"}})
}

// sees permits the account to read and write what the webhook intercepts, in a namespace.
func sees(namespace string) change {
	return func(w *world) {
		w.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sees"}, Rules: []rbacv1.PolicyRule{rule("example.com", "things", "create", "get")}},
			sight(namespace))
	}
}

func sight(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sees"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "sees"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}}
}

// loses deletes the binding by which the account had the permissions in a namespace.
func loses(namespace string) change { return without(sight(namespace)) }

// reached returns the namespaces in which the demo's webhook is called; nil if it is not called.
func (w *world) reached() []string {
	w.t.Helper()
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	require.NoError(w.t, w.Client("test").List(w.t.Context(), list))
	require.Len(w.t, list.Items, 1)
	for _, hook := range list.Items[0].Webhooks {
		return hook.NamespaceSelector.MatchExpressions[0].Values
	}
	return nil
}

// sharing installs the demo with a webhook and the targets t1 and t2.
func sharing(w *world) {
	everythingBut(w)
	hooked(operatorsv1alpha1.ValidatingAdmissionWebhook)(w)
	targets("t2")(w)
	targetsOf("t1", "t2")(w)
	sees("t1")(w)
	sees("t2")(w)
	installed(w)
	require.Equal(w.t, []string{"t1", "t2"}, w.reached())
}

// broken makes the spec invalid.
func broken(w *world) {
	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name = "A"
	})(w)
}

// bossSees returns what gives another account all permissions.
func bossSees() []client.Object {
	everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	return []client.Object{bound("boss"), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Rules: []rbacv1.PolicyRule{everything}}}
}

// held deletes the CSV, which a user keeps from being deleted, without Remit's finalizer.
func held(w *world) {
	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Finalizers = []string{"example.com/delay"} })(w)
	w.Delete(w.csv.DeepCopy())
}

func targetsOf(namespaces ...string) change { return with(group("og", "acct", namespaces...)) }

func TestAWebhookLeavesANamespaceThatNoLongerPermitsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sharing(w)
	loses("t2")(w)
	got := w.settle()
	require.Equal(t, []string{"t1"}, w.reached())
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Contains(t, got.message, `requests are not intercepted through webhook "a.example.com" in namespace t2, until the ServiceAccount has the permissions`)
	require.Equal(t, []string{narrowed}, got.writes)
	require.Equal(t, "WebhookNarrowed!", got.moves)
	require.Empty(t, w.settle().writes)

	sees("t2")(w)
	got = w.settle()
	require.Equal(t, []string{"t1", "t2"}, w.reached(), "healed")
	require.Equal(t, completed, got.message)

	loses("t1")(w)
	loses("t2")(w)
	got = w.settle()
	require.Nil(t, w.reached(), "the webhook is off")
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	sees("t1")(w)
	sees("t2")(w)
	w.settle()
	require.Equal(t, []string{"t1", "t2"}, w.reached())
}

func TestAWebhookIsNarrowedInEveryState(t *testing.T) {
	t.Parallel()
	wide := func(w *world) {
		hooked(operatorsv1alpha1.ValidatingAdmissionWebhook)(w)
		editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Spec.InstallModes = append(c.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: true})
		})(w)
		targetsOf()(w)
		installed(w)
	}
	for name, row := range map[string]struct {
		given []change
		want  []string
		says  string
	}{
		"all namespaces":                   {given: []change{wide, everythingBut}},
		"an invalid spec":                  {given: []change{sharing, broken, loses("t2")}, want: []string{"t1"}},
		"a deletion that a user delays":    {given: []change{sharing, held, loses("t2")}, want: []string{"t1"}},
		"a version that is being replaced": {given: []change{sharing, next, loses("t2")}, want: []string{"t1"}},
		"a second OperatorGroup, as the default account": {
			given: []change{sharing, defaultIs("boss"), with(group("second", "acct", "t1")), loses("t2")}, want: []string{"t1"}},
		"a second OperatorGroup": {given: []change{sharing, with(group("second", "acct", "t1")), loses("t2")}, want: []string{"t1"}},
		"a second OperatorGroup with another account": {
			given: []change{sharing, with(serviceAccount("weak"), group("second", "weak", "t1")), loses("t2")}, want: []string{"t1"}},
		"an OperatorGroup that was deleted":            {given: []change{sharing, without(group("og", "acct")), loses("t2")}, want: []string{"t1"}},
		"an OperatorGroup that is deleted afterwards":  {given: []change{sharing, loses("t2"), without(group("og", "acct"))}, want: []string{"t1"}},
		"an OperatorGroup that no longer names it":     {given: []change{sharing, with(group("og", "", "t1", "t2")), loses("t2")}, want: []string{"t1"}},
		"a deleted OperatorGroup and nothing left":     {given: []change{sharing, without(group("og", "acct")), loses("t1"), loses("t2")}},
		"a deleted OperatorGroup and nothing recorded": {given: []change{sharing, without(group("og", "acct")), recording("")}, want: []string{"t1", "t2"}},
		"an account of another namespace is recorded": {
			given: []change{sharing, without(group("og", "acct")), recording("t2/acct")}, want: []string{"t1", "t2"}},
		"a deleted OperatorGroup, as the default account of other namespaces": {
			given: []change{sharing, defaultElsewhere("boss"), without(group("og", "acct")), loses("t2")}, want: []string{"t1"}},
		"an account that may not write the webhook": {
			given: []change{sharing, refusing(narrowed, forbidden), loses("t2")}, want: []string{"t1", "t2"},
			says: "to remove them, run: kubectl delete validatingwebhookconfiguration a.example.com-#"},
		"an account that may not write the webhook, as the default account": {
			given: []change{sharing, defaultIs("boss"), refusing(narrowed, forbidden), loses("t2")}, want: []string{"t1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, c := range row.given {
				c(w)
			}
			got := w.settle()
			require.Equal(t, row.want, w.reached(), got)
			require.Contains(t, got.message, row.says)
		})
	}
}

func TestAWebhookThatIsNotNarrowed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		given []change
		says  string
	}{
		"the annotation keeps it": {given: []change{func(w *world) {
			og := group("og", "acct", "t1", "t2")
			og.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
			w.Put(og)
		}}, says: "they are kept because of the annotation remit.dev/keep-excess-permissions of OperatorGroup t1/og"},
		"another authorizer allows it":                       {given: []change{func(w *world) { w.Allow("*") }}, says: completed},
		"another authorizer allows it, but denied it before": {given: []change{refusing(narrowed, forbidden), settled, refusing(narrowed, nil), func(w *world) { w.Allow("*") }}},
		"the API server cannot decide": {given: []change{
			refusing("remit: review create things", errors.New("down")), refusing("remit: review get things", errors.New("down"))}},
		"the API server knows another account": {given: []change{func(w *world) {
			w.Lag(group("og", "acct"))
			w.Put(group("og", "boss", "t1", "t2"), serviceAccount("boss"))
		}}},
		"another account of the namespace permits it":                  {given: []change{with(append(bossSees(), group("second", "boss", "t1"))...)}},
		"the default account installs":                                 {given: []change{defaultIs("acct"), with(group("og", "", "t1", "t2"))}},
		"the OperatorGroup was deleted, and the account may not write": {given: []change{without(group("og", "acct")), refusing(narrowed, forbidden)}, says: messageNoGroup},
		"the API server has recorded another account": {given: []change{without(group("og", "acct")), func(w *world) {
			w.Lag(w.csv.DeepCopy())
			recording("t1/boss")(w)
		}}},
		"the configuration has no proof": {given: []change{unprovenHook}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sharing(w)
			loses("t2")(w)
			for _, c := range row.given {
				c(w)
			}
			got := w.settle()
			require.Equal(t, []string{"t1", "t2"}, w.reached(), got)
			require.Contains(t, got.message, row.says)
		})
	}
}

// recording records an account in the CSV, or none for "".
func recording(account string) change {
	return editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		delete(c.Annotations, names.AnnotationAccount)
		if account != "" {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, names.AnnotationAccount, account)
		}
	})
}

// defaultElsewhere makes a ServiceAccount the default account of other namespaces.
func defaultElsewhere(name string) change {
	return func(w *world) {
		defaultIs(name)(w)
		w.options.Default.Namespaces = []string{"elsewhere"}
		restarted(w)
	}
}

// defaultIs makes a ServiceAccount the installation's default account.
func defaultIs(name string) change {
	return func(w *world) {
		w.Put(serviceAccount(name))
		w.options.Default = scoped.Default{Account: types.NamespacedName{Namespace: "t1", Name: name}}
		restarted(w)
	}
}

// A Deployment that the API server refuses stays as it is, so that its webhooks must stay on: nothing would switch them on again.
func TestARefusedDeploymentKeepsItsWebhooks(t *testing.T) {
	t.Parallel()
	for name, isRefused := range map[string]bool{"refused": true, "accepted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sharing(w)
			if isRefused {
				w.Refuse("acct: try Deployment t1/demo", apierrors.NewForbidden(appsv1.Resource("deployments"), "demo", errors.New("of a policy")))
			}
			editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
				c.Spec.WebhookDefinitions[0].WebhookPath = ptr.To("/v2")
				c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = "demo:v2"
			})(w)
			got := w.settle()
			if !isRefused {
				require.Contains(t, got.writes, "acct: apply Deployment t1/demo")
				require.Nil(t, w.reached(), "it is off until the Pods run")
				return
			}
			require.Equal(t, []string{"t1", "t2"}, w.reached())
			require.Contains(t, got.message, "of a policy")
			require.NotContains(t, got.writes, "acct: apply Deployment t1/demo")
		})
	}
}
