package csv

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// demo is the ClusterServiceVersion in the test tables. It has no proof, as if a user had created it. Its account is recorded already.
const demo = `
metadata: {namespace: t1, name: demo.v1.0.0, annotations: {remit.dev/account: t1/acct}}
spec:
  version: 1.0.0
  installModes:
  - {type: OwnNamespace, supported: true}
  - {type: SingleNamespace, supported: true}
  - {type: MultiNamespace, supported: true}
  customresourcedefinitions: {owned: [{name: things.example.com, version: v1, kind: Thing}]}
  install:
    strategy: deployment
    spec:
      permissions: [{serviceAccountName: demo, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}]
      deployments:
      - name: demo
        spec:
          selector: {matchLabels: {app: demo}}
          template:
            metadata: {labels: {app: demo}}
            spec: {serviceAccountName: demo, containers: [{name: manager, image: "images.test/demo:1"}]}
`

// world is an in-memory cluster in which the demo can be installed as ServiceAccount "acct", and a Reconciler for that
// cluster.
type world struct {
	*recorded.Server
	t       *testing.T
	options Options
	r       *Reconciler
	clock   *testclock.FakePassiveClock
	csv     *operatorsv1alpha1.ClusterServiceVersion
	// unopened is the error returned when the account's client is opened. own is the error returned when the account's enrollment is
	// checked.
	unopened, own error
}

// change modifies the world of a row before its first reconcile. The changes in a row are made in order.
type change func(*world)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: testclock.NewFakePassiveClock(time.Now().Truncate(time.Second)), csv: parsed(t, demo, &operatorsv1alpha1.ClusterServiceVersion{})}
	w.csv.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-kit.SettleTime))
	w.Server = recorded.New(t, indexFields,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1", UID: "t1", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}},
		group("og", "acct", "t1"), serviceAccount("acct"), things(), grant("all"), w.csv,
	)
	w.options = Options{
		Client: w.Cached("remit"), Live: w.Client("remit"), Accounts: dependencies{w}, Enrollment: dependencies{w}, RBAC: w.RBAC(), Proofs: proofs.Keys(), Recorder: w.Recorder(),
		ServerVersion: func() (string, error) { return "v1.36.0", nil }, Clock: w.clock,
	}
	w.put(rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	w.Put(thingsRoles()...) // another install has published the API
	return w
}

// put sets the account's cluster-wide permissions.
func (w *world) put(rules ...rbacv1.PolicyRule) {
	w.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: rules})
}

// dependencies implements the interfaces accounts and enrollment for a world's Reconciler.
type dependencies struct{ *world }

// For implements accounts.
func (d dependencies) For(_ context.Context, account scoped.Account) (client.Client, error) {
	return d.Client(account.Name), d.unopened
}

// Open implements accounts.
func (d dependencies) Open(account scoped.Account) (client.Client, error) {
	return d.Client(account.Name), nil
}

// Own implements enrollment.
func (d dependencies) Own(rbac.Listers, scoped.Account) error { return d.own }

// effect contains all writes that are made while a ClusterServiceVersion is reconciled until nothing changes, and its
// status afterwards.
type effect struct {
	phase   operatorsv1alpha1.ClusterServiceVersionPhase
	reason  operatorsv1alpha1.ConditionReason
	message string
	// moves contains the reasons of the phase events, in order; "!" marks a warning.
	moves string
	// unmet contains the requirements that are not present: "<kind> <name>: <status> <message>".
	unmet []string
	// writes contains the writes, except status writes, and the other events.
	writes []string
	// after is the delay before a reconcile that no event triggers; failed is an error that is retried.
	after  time.Duration
	failed string
}

// maxReconciles is the maximum number of reconciles that settle runs.
const maxReconciles = 10

// settle reconciles until a reconcile writes the same as the previous one, usually nothing, or returns an error. If the
// writes repeat but after is 0, the CSV would be reconciled in an endless loop.
func (w *world) settle() effect {
	w.t.Helper()
	if w.r == nil {
		var err error
		w.r, err = New(w.options)
		require.NoError(w.t, err)
	}
	var out effect
	var last []string
	for range maxReconciles {
		result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		wrote := w.Writes()
		if err == nil && slices.Equal(wrote, last) && result.RequeueAfter != turnPause {
			out.after = result.RequeueAfter
			return w.shown(out)
		}
		out.note(wrote)
		if err != nil {
			out.failed = recorded.Mask(err.Error())
			return w.shown(out)
		}
		last = wrote
	}
	w.t.Fatalf("the controller is still writing after %d reconciles: %q", maxReconciles, out.writes)
	return out
}

// transition matches the event for a phase transition.
var transition = regexp.MustCompile(`^event: (Normal|Warning) (\w+) on ClusterServiceVersion [^ ]+: `)

// note adds recorded writes and events. It skips status writes, because other fields of effect contain the status.
func (o *effect) note(wrote []string) {
	for _, write := range wrote {
		m := transition.FindStringSubmatch(write)
		switch {
		case strings.HasPrefix(write, "remit: patch status of ClusterServiceVersion "):
		case m == nil || slices.Contains([]string{eventLeftBehind, eventStopping, eventFinalizerStuck}, m[2]):
			o.writes = append(o.writes, write)
		default:
			o.moves = strings.TrimSpace(o.moves + " " + m[2] + map[string]string{corev1.EventTypeWarning: "!"}[m[1]])
		}
	}
}

// shown returns a copy of out that includes the status of the ClusterServiceVersion.
func (w *world) shown(out effect) effect {
	if !w.Has(w.csv) {
		return out // the ClusterServiceVersion was deleted
	}
	st := w.csv.Status
	out.phase, out.reason, out.message = st.Phase, st.Reason, recorded.Mask(st.Message)
	for _, r := range st.RequirementStatus {
		if r.Status != "Present" && r.Status != deploymentFound {
			out.unmet = append(out.unmet, recorded.Mask(r.Kind+" "+r.Name+": "+string(r.Status)+" "+r.Message))
		}
	}
	return out
}

// row describes a world, and the effect of reconciling its ClusterServiceVersion until nothing changes.
type row struct {
	name  string
	given []change
	want  effect
}

func checkRows(t *testing.T, rows []row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, c := range row.given {
				c(w)
			}
			require.Empty(t, cmp.Diff(row.want, w.settle(), cmp.AllowUnexported(effect{}), cmpopts.EquateEmpty()), "- expected, + actual")
		})
	}
}

// Objects in the test tables.

func group(name, serviceAccount string, targets ...string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: serviceAccount, TargetNamespaces: targets}}
}

func serviceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name}}
}

// grant binds a ClusterRole to the account.
func grant(role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}}
}

// things returns the CustomResourceDefinition that the demo owns.
func things() *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", Plural: "things"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

// thingsRoles returns the ClusterRoles of the API that the demo provides.
func thingsRoles() []client.Object {
	var out []client.Object
	for _, role := range provided.RolesOf(provided.API{Kind: "Thing", Version: "v1", Group: "example.com", Plural: "things"}) {
		out = append(out, role)
	}
	return out
}

// created makes the ClusterServiceVersion a new one.
func created(w *world) {
	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.CreationTimestamp = metav1.NewTime(w.clock.Now()) })(w)
}

func deploymentOf(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name}}
}

// parsed decodes a manifest.
func parsed[T client.Object](t *testing.T, manifest string, into T) T {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), into))
	return into
}

// Changes to the world.

func with(objects ...client.Object) change { return func(w *world) { w.Put(objects...) } }

func without(objects ...client.Object) change { return func(w *world) { w.Delete(objects...) } }

// editing changes the ClusterServiceVersion.
func editing(edit func(*operatorsv1alpha1.ClusterServiceVersion)) change {
	return func(w *world) { recorded.Edit(w.Server, w.csv, edit) }
}

// refusing makes the API server respond to a request with an error.
func refusing(request string, err error) change { return func(w *world) { w.Refuse(request, err) } }

// available makes a Deployment available, as the Deployment controller does.
func available(name string) change {
	return func(w *world) {
		recorded.Edit(w.Server, deploymentOf(name), func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
				Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}
		})
	}
}

// settled reconciles until nothing changes, and discards the recorded requests.
func settled(w *world) {
	w.settle()
	w.Requests()
}

// installed installs the demo.
func installed(w *world) {
	settled(w)
	available("demo")(w)
	require.Equal(w.t, phaseSucceeded, w.settle().phase, w.csv.Status.Message)
	w.Requests()
}

func passing(d time.Duration) change {
	return func(w *world) { w.clock.SetTime(w.clock.Now().Add(d)) }
}

// may makes the given rules the account's only permissions.
func may(rules ...rbacv1.PolicyRule) change { return func(w *world) { w.put(rules...) } }

// phase sets the phase and reason in the status, as a user could.
func phase(p operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) change {
	return editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Phase, c.Status.Reason = p, reason })
}

// as makes the following changes and reconciles apply to the ClusterServiceVersion with the given name.
func as(name string) change {
	return func(w *world) {
		w.csv = w.csv.DeepCopy()
		w.csv.Name = name
	}
}

// next creates a version that replaces the demo.
func next(w *world) {
	c := parsed(w.t, demo, &operatorsv1alpha1.ClusterServiceVersion{})
	c.Name, c.Spec.Replaces = "demo.v2.0.0", "demo.v1.0.0"
	c.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-kit.SettleTime))
	w.Put(c)
}

// targets creates namespaces and makes them the targets of the OperatorGroup.
func targets(namespaces ...string) change {
	return func(w *world) {
		for _, n := range namespaces {
			w.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
		}
		w.Put(group("og", "acct", namespaces...))
	}
}

// selecting makes the OperatorGroup select namespaces by a label.
func selecting(label string) change {
	og := group("og", "acct")
	og.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": label}}
	return with(og)
}

// stuckAt makes a Deployment exceed its progress deadline.
func stuckAt(name string) change {
	return func(w *world) {
		recorded.Edit(w.Server, deploymentOf(name), func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse}, {Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"},
			}}
		})
	}
}

// roles returns the Roles of a namespace.
func (w *world) roles(namespace string) []*rbacv1.Role {
	roles, err := w.RBAC().Roles.Roles(namespace).List(labels.Everything())
	require.NoError(w.t, err)
	return roles
}

func withoutRoles(w *world) {
	for _, role := range w.roles("t1") {
		w.Delete(role.DeepCopy())
	}
}

// keptInDeletion deletes the roles of a namespace after adding a finalizer that prevents their removal.
func keptInDeletion(namespace string) change {
	return func(w *world) {
		for _, role := range w.roles(namespace) {
			role = role.DeepCopy()
			role.Finalizers = append(role.Finalizers, "example.com/kept")
			w.Put(role)
			w.Delete(role)
		}
	}
}

// unproven removes the proofs from the roles and bindings of a namespace, as if another user had created them with
// copied labels.
func unproven(namespace string) change {
	return func(w *world) {
		for _, role := range w.roles(namespace) {
			role = role.DeepCopy()
			delete(role.Annotations, names.AnnotationProof)
			w.Put(role)
		}
		bindings, err := w.RBAC().RoleBindings.RoleBindings(namespace).List(labels.Everything())
		require.NoError(w.t, err)
		for _, b := range bindings {
			b = b.DeepCopy()
			delete(b.Annotations, names.AnnotationProof)
			w.Put(b)
		}
	}
}

// planned marks the demo as created by an InstallPlan.
func planned(w *world) {
	proofs.Mark(w.csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", Proofs: proofs.Keys()})
	w.Put(w.csv)
}

// planInProgress marks the demo as created by an InstallPlan that is still in progress.
func planInProgress(w *world) {
	planned(w)
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "demo"}}
	sub.Status.CurrentCSV, sub.Status.InstallPlanRef = "demo.v1.0.0", &corev1.ObjectReference{Name: "install-x"}
	sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionInstallPlanPending, Status: corev1.ConditionTrue, Reason: "Installing"})
	w.Put(sub)
}

// hooked adds a webhook to the demo.
func hooked(kind operatorsv1alpha1.WebhookAdmissionType) change {
	return editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		c.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{Type: kind, GenerateName: "a.example.com", DeploymentName: "demo", ContainerPort: 443,
			AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"}}}}}}
	})
}

// serves makes the demo own an API.
func serves(w *world) {
	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		c.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Name: "widgets", Group: "widgets.example.com", Version: "v1", Kind: "Widget",
			DeploymentName: "demo", ContainerPort: 443}}
	})(w)
}

// served registers an API with the same name for another owner.
func served(w *world) {
	w.Put(&apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.widgets.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{Group: "widgets.example.com", Version: "v1", Service: &apiregistrationv1.ServiceReference{Namespace: "other", Name: "x"}}})
}

// converts makes the demo convert its CustomResourceDefinition and run in all namespaces.
func converts(w *world) {
	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		c.Spec.InstallModes = []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
		c.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{Type: operatorsv1alpha1.ConversionWebhook, GenerateName: "c.example.com", DeploymentName: "demo",
			ContainerPort: 443, AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), ConversionCRDs: []string{"things.example.com"}}}
	})(w)
	crd := things()
	proofs.Mark(crd, (&Reconciler{Options: Options{Proofs: proofs.Keys()}}).ownerOf(w.csv, nil))
	w.Put(crd, group("og", "acct"))
}

// terminating deletes the namespace. A finalizer keeps it in phase Terminating.
func terminating(w *world) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
	recorded.Edit(w.Server, namespace, func(n *corev1.Namespace) { n.Finalizers = []string{"test/content"} })
	w.Delete(namespace)
}

// groupDeleted deletes the OperatorGroup. A finalizer delays its deletion.
func groupDeleted(w *world) {
	og := group("og", "acct")
	recorded.Edit(w.Server, og, func(g *operatorsv1.OperatorGroup) { g.Finalizers = []string{"test/hold"} })
	w.Delete(og)
}

// recreated makes the namespace newer than the objects that the demo has created outside the namespace.
func recreated(w *world) {
	recorded.Edit(w.Server, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}, func(n *corev1.Namespace) {
		n.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
	})
}
