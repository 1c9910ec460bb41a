package installplan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// The bundle that the test tables install, in namespace "ns" as ServiceAccount "acct".
const (
	demoCSV = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: demo.v1.0.0}
spec:
  version: 1.0.0
  displayName: demo
  installModes: [{type: OwnNamespace, supported: true}, {type: SingleNamespace, supported: true}]
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
	demoCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	stricterCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, required: [spec]}}}]
`
	demoConfigMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: defaults}, data: {a: "1"}}`
	demoMonitor   = `{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: demo}, spec: {}}`
)

// world is an in-memory cluster in which the demo's plan would complete in one reconcile, and a Reconciler for that
// cluster.
type world struct {
	*recorded.Server
	t         *testing.T
	r         *Reconciler
	options   Options
	manifests []string
	// unread is the error returned when the bundle's content is read.
	unread error
	// unopened is the error returned when an account's client is opened.
	unopened error
	pin      resolver.Pin
	plan     *operatorsv1alpha1.InstallPlan
	// missing lists the programs that are not enrolled.
	missing []string
}

// change modifies the world of a row before its first reconcile.
type change func(*world)

func newWorld(t *testing.T, changes ...change) *world {
	t.Helper()
	w := &world{t: t, manifests: []string{demoCSV, demoCRD, demoConfigMap}, plan: &operatorsv1alpha1.InstallPlan{}}
	w.Server = recorded.New(t, provided.Index,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}},
		operatorGroup("og", "acct"), account("ns", "acct"),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		binding("all"),
		&operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "sub"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "demo"}},
	)
	w.pin = resolver.Pin{Subscription: "demo", SubscriptionUID: "sub", CatalogNamespace: "ns", Catalog: "cat", Package: "demo", Channel: "stable", Bundle: "demo.v1.0.0"}
	w.plan.Spec = operatorsv1alpha1.InstallPlanSpec{Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true, Generation: 1}
	w.options = Options{
		Client: w.Cached("remit"), Live: w.Client("remit"), Accounts: dependencies{w}, Enrollment: dependencies{w}, Catalogs: dependencies{w}, RBAC: w.RBAC(), Proofs: proofs.Keys(), Recorder: w.Recorder(),
		ServerVersion: func() (string, error) { return "v1.36.0", nil }, Home: "remit", GlobalCatalogNamespace: "global", Clock: testclock.NewFakePassiveClock(time.Now()),
	}
	w.Before("acct: apply RoleBinding ns/demo.v1.0.0-demo-#", func() { w.establish("things.example.com") })
	for _, c := range changes {
		c(w)
	}
	w.putPlan()
	var err error
	w.r, err = New(w.options)
	require.NoError(t, err)
	return w
}

// putPlan stores the plan under the name that commits to its pins.
func (w *world) putPlan() {
	w.t.Helper()
	if w.pin.Digest == "" {
		w.pin.Digest = w.content().Digest()
	}
	plan := resolver.Plan{Namespace: "ns", Pins: []resolver.Pin{w.pin}}
	name := plan.Name()
	text := plan.Encode()
	w.plan.Namespace = "ns"
	if w.plan.Name == "" {
		w.plan.Name = name
	}
	w.plan.Annotations = map[string]string{names.AnnotationPlan: text}
	w.Put(w.plan)
	w.Get(w.plan)
}

func (w *world) content() *catalog.Content {
	out := &catalog.Content{}
	for _, m := range w.manifests {
		out.Manifests = append(out.Manifests, []byte(m))
	}
	return out
}

// establish marks a CustomResourceDefinition as established.
func (w *world) establish(name string) {
	recorded.Edit(w.Server, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	})
}

// dependencies implements what a world's Reconciler depends on: the catalogs, the account clients and the enrollment.
type dependencies struct{ *world }

// Get implements resolver.Catalogs.
func (d dependencies) Get(key types.NamespacedName) (*catalog.Snapshot, bool) {
	return &catalog.Snapshot{Key: key, Reader: d}, key.Name == "cat"
}

// Content implements catalog.ContentReader.
func (d dependencies) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return d.content(), d.unread
}

// For implements AccountClients.
func (d dependencies) For(_ context.Context, account scoped.Account) (client.Client, error) {
	return d.Client(account.Name), d.unopened
}

// Missing implements Options.Enrollment.
func (d dependencies) Missing(rbac.Listers, scoped.Account) ([]string, error) { return d.missing, nil }

// Own implements Options.Enrollment.
func (d dependencies) Own(rbac.Listers, scoped.Account) error { return nil }

// effect is the outcome of reconciling the plan: its status, writes and next reconcile.
type effect struct {
	phase operatorsv1alpha1.InstallPlanPhase
	// installed, missing and refused are the status and reason of the conditions, in the form "<status> <reason>".
	installed, missing, refused string
	message                     string
	// lookups is the type and reason of the bundle lookup.
	lookups string
	// steps contains one character for the status of each step, in the order of the writes: "?" Unknown, "=" Present,
	// "+" Created, "!" NotCreated.
	steps string
	// writes lists the writes and events, except status writes.
	writes []string
	// after is the delay before a reconcile that no event triggers; failed is an error that is retried.
	after  time.Duration
	failed string
	// asks means that the next reconcile sends requests even if nothing has changed.
	asks bool
}

const saves = "remit: patch status of InstallPlan ns/install-#"

// reconcile runs one reconcile and returns its effect.
func (w *world) reconcile() effect {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.plan)})
	if !w.Has(w.plan) {
		w.plan.Status = operatorsv1alpha1.InstallPlanStatus{}
	}
	st := w.plan.Status
	out := effect{phase: st.Phase, message: recorded.Mask(st.Message), after: result.RequeueAfter}
	if err != nil {
		out.failed = recorded.Mask(err.Error())
	}
	for of, into := range map[operatorsv1alpha1.InstallPlanConditionType]*string{
		operatorsv1alpha1.InstallPlanInstalled: &out.installed, typePermissionsMissing: &out.missing, typeObjectsRefused: &out.refused,
	} {
		if c := st.GetCondition(of); c.LastUpdateTime != nil {
			*into = strings.TrimSpace(string(c.Status) + " " + string(c.Reason))
		}
	}
	for _, s := range st.Plan {
		out.steps += map[stepStatus]string{unknown: "?", present: "=", created: "+", notCreated: "!"}[s.Status]
	}
	for _, l := range st.BundleLookups {
		out.lookups = string(l.Conditions[0].Type) + " " + l.Conditions[0].Reason
	}
	out.writes = slices.DeleteFunc(w.Writes(), func(write string) bool { return write == saves })
	return out
}

// row describes a world, and the expected effect of reconciling its plan.
type row struct {
	name  string
	given []change
	want  effect
}

// checkRows runs the rows of a table. It also checks that a second reconcile writes nothing, unless the first one
// failed or used an outdated cache.
func checkRows(t *testing.T, rows []row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, row.given...)
			got := w.reconcile()
			w.Requests()
			again := w.reconcile()
			if got.after == minRetryDelay {
				require.Equal(t, retryFactor*minRetryDelay, again.after, "the delays grow")
			}
			if got.failed == "" && got.after != status.CacheLag {
				require.Empty(t, again.writes, "nothing has changed")
			}
			got.asks = len(w.Requests()) > 0
			if got.phase == operatorsv1alpha1.InstallPlanPhaseComplete || got.phase == operatorsv1alpha1.InstallPlanPhaseFailed {
				require.Zero(t, w.r.memory.Get(client.ObjectKeyFromObject(w.plan)))
			}
			require.Empty(t, cmp.Diff(row.want, got, cmp.AllowUnexported(effect{}), cmpopts.EquateEmpty()), "- expected, + actual")
		})
	}
}

// Objects in the test tables.

func operatorGroup(name, serviceAccount string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: serviceAccount, TargetNamespaces: []string{"ns"}}}
}

func account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// binding binds a ClusterRole to the account.
func binding(role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "acct"}}}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// lineage returns the owner of the objects that an install of a package in "ns" creates.
func lineage(pkg string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "ns"}, CSV: pkg + ".v1.0.0", Proofs: proofs.Keys()}
}

// createdFor marks an object as created by the install of a package.
func createdFor[T client.Object](pkg string, obj T) T {
	proofs.Mark(obj, lineage(pkg))
	return obj
}

// otherCSV returns the ClusterServiceVersion that ownedByOther makes the owner of an object.
func otherCSV() *operatorsv1alpha1.ClusterServiceVersion {
	return &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo.v0.9.0", UID: "other"}}
}

func ownedByOther(obj *corev1.ConfigMap) *corev1.ConfigMap {
	csv := otherCSV()
	obj.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(csv, operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))}
	return obj
}

// parsed decodes a manifest into an object and returns the object.
func parsed[T client.Object](t *testing.T, manifest string, into T) T {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(manifest), into))
	return into
}

// Changes to the world.

func with(objects ...client.Object) change { return func(w *world) { w.Put(objects...) } }

func without(objects ...client.Object) change { return func(w *world) { w.Delete(objects...) } }

// bundled replaces the manifests of the bundle.
func bundled(manifests ...string) change { return func(w *world) { w.manifests = manifests } }

// planned changes the plan.
func planned(edit func(*operatorsv1alpha1.InstallPlan)) change {
	return func(w *world) { edit(w.plan) }
}

// refusing makes the API server respond to a request with an error.
func refusing(request string, err error) change { return func(w *world) { w.Refuse(request, err) } }

// lastStep is the write of the last step of the demo's plan.
const lastStep = "acct: apply RoleBinding ns/demo.v1.0.0-demo-#"

// lagging makes the cache return the current version of an object even after the object has changed.
func lagging(obj client.Object) change { return func(w *world) { w.Lag(obj) } }

// beforeRequest makes the API server call a function before it responds to a request.
func beforeRequest(request string, do func(*world)) change {
	return func(w *world) {
		if do == nil {
			w.Before(request, nil)
			return
		}
		w.Before(request, func() { do(w) })
	}
}

func whichServes(name string) change { return func(w *world) { w.establish(name) } }

// crdAccount configures a CRD account for the installation.
func crdAccount(w *world) {
	w.options.CRDAccount = types.NamespacedName{Namespace: "remit", Name: "crds"}
}

func defaultAccount(namespace, name string) change {
	return func(w *world) {
		w.options.Default = scoped.Default{Account: types.NamespacedName{Namespace: namespace, Name: name}}
	}
}

// asAdministrator grants all permissions to a ServiceAccount.
func asAdministrator(namespace, name string) change {
	b := binding("all")
	b.Name, b.Subjects[0].Namespace, b.Subjects[0].Name = "administrator", namespace, name
	return with(b)
}

// selecting makes the OperatorGroup select namespaces by a label.
func selecting(label string) change {
	og := operatorGroup("og", "acct")
	og.Spec.TargetNamespaces, og.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"of": label}}
	return with(og)
}

// existingCRD returns the demo's CustomResourceDefinition after calling edit on it.
func existingCRD(t *testing.T, edit func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := parsed(t, demoCRD, &apiextensionsv1.CustomResourceDefinition{})
	edit(out)
	return out
}

// forged adds the labels of the demo's objects to an object, but no proof.
func forged(obj *corev1.ConfigMap) *corev1.ConfigMap {
	obj.Labels = lineage("demo").Labels()
	return obj
}

// bindingBeforeRole binds another subject to the demo's role before the role exists, which is possible because the
// role's name is predictable.
func bindingBeforeRole(w *world) {
	theirs := theirBinding(w.t)
	theirs.Name = "theirs"
	w.Put(theirs)
}

// bindingOfOthers creates the binding of the demo's role with another subject.
func bindingOfOthers(w *world) { w.Put(theirBinding(w.t)) }

func theirBinding(t *testing.T) *rbacv1.RoleBinding {
	other := newWorld(t)
	other.reconcile()
	bindings, err := other.RBAC().RoleBindings.RoleBindings("ns").List(labels.Everything())
	require.NoError(t, err)
	require.Len(t, bindings, 1)
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: bindings[0].Name}, RoleRef: bindings[0].RoleRef,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}}
}

// thing returns a custom resource of the kind that the demo defines.
func thing() client.Object {
	out := &unstructured.Unstructured{}
	out.SetAPIVersion("example.com/v1")
	out.SetKind("Thing")
	out.SetNamespace("ns")
	out.SetName("first")
	return out
}

// oldPlans adds more completed plans than the controller keeps.
func oldPlans(w *world) {
	for i := range keptPlans + 1 {
		old := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("old-", i)}}
		old.Spec.Generation, old.Status.Phase = -i, operatorsv1alpha1.InstallPlanPhaseComplete
		w.Put(old)
	}
}

func TestAReconcilerRequiresItsNamespaces(t *testing.T) {
	t.Parallel()
	for _, drop := range []func(*Options){func(o *Options) { o.Home = "" }, func(o *Options) { o.GlobalCatalogNamespace = "" }} {
		options := newWorld(t).options
		drop(&options)
		_, err := New(options)
		require.ErrorContains(t, err, "are required")
	}
}
