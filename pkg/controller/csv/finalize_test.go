package csv

import (
	"context"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// indexed returns a fake client that has the same lineage index as the cache.
func indexed(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv2.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), meta.RESTScopeRoot)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...)
	require.NoError(t, kit.IndexLineage(t.Context(), recorded.Indexes{Builder: builder}))
	return builder.Build()
}

// removal is a deleted CSV with a webhook, a Deployment and a CustomResourceDefinition that the operator converts.
type removal struct {
	t      *testing.T
	client client.Client
	r      *Reconciler
	csv    *operatorsv1alpha1.ClusterServiceVersion
	owner  ownerutil.Owner
	crd    *apiextensionsv1.CustomResourceDefinition
	// denied is the resource that the account is not allowed to delete.
	denied string
	clock  *testingclock.FakePassiveClock
}

func newRemoval(t *testing.T, more ...client.Object) *removal {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", UID: "u",
		DeletionTimestamp: &metav1.Time{Time: now}, Finalizers: []string{names.FinalizerCSV}}}
	out := &removal{t: t, csv: csv, owner: (&Reconciler{Options: Options{Proofs: proofs.Keys()}}).ownerOf(csv, nil), clock: testingclock.NewFakePassiveClock(now),
		crd: &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}}
	out.crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "t1", Name: "d-service"}},
	}}
	proofs.Mark(out.crd, out.owner)
	out.crd.Annotations[names.AnnotationConversion] = "t1/d-service"
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	proofs.Mark(config, out.owner)
	config.Labels[names.LabelOwner], config.Labels[names.LabelOwnerNamespace] = csv.Name, csv.Namespace
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "foreign", UID: "f", OwnerReferences: []metav1.OwnerReference{out.owner.Reference()},
		Labels: map[string]string{names.LabelOwner: csv.Name}}}
	out.client = indexed(t, append(more, csv, out.crd, config, out.deployment("d", csv.Name), foreign)...)
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	out.r = &Reconciler{Options: Options{Client: out.client, Recorder: events.NewFakeRecorder(100), Clock: out.clock, Proofs: proofs.Keys(), RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}}, orphaning: &kit.Orphaning{}}
	return out
}

// deployment returns a Deployment of the removal's lineage. csv is the name of the version that the Deployment belongs
// to.
func (w *removal) deployment(name, csv string) *appsv1.Deployment {
	out := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name, UID: types.UID(name)}}
	proofs.Mark(out, w.owner)
	out.Labels[names.LabelOwner] = csv
	return out
}

// remove removes the objects as a single reconcile would. waiting is true if the finalizer is kept.
func (w *removal) remove(siblings ...*operatorsv1alpha1.ClusterServiceVersion) (waiting bool, after time.Duration) {
	w.t.Helper()
	w.r.confirmer = &preflight.Confirmer{Ask: func(_ context.Context, _ rbac.Subject, _ string, rule rbacv1.PolicyRule) (bool, error) {
		return rule.Resources[0] != w.denied, nil
	}}
	s := &scope{csv: w.csv, owner: w.owner, account: scoped.Account{Namespace: "t1", Name: "acct"}, siblings: map[string]*operatorsv1alpha1.ClusterServiceVersion{}}
	for _, c := range siblings {
		s.siblings[c.Name] = c
	}
	left, err := w.r.toRemove(w.t.Context(), s, true)
	require.NoError(w.t, err)
	waiting, err = w.r.removeAll(w.t.Context(), s, w.client, left)
	require.NoError(w.t, err)
	return waiting, s.after
}

func (w *removal) strategy() apiextensionsv1.ConversionStrategyType {
	w.t.Helper()
	live := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(w.crd), live))
	return live.Spec.Conversion.Strategy
}

func (w *removal) exists(obj client.Object, name string) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "t1", Name: name}, obj)
	require.NoError(w.t, client.IgnoreNotFound(err))
	return err == nil
}

// An operator that reads objects without conversion drops fields when it next updates them.
func TestAConversionIsResetAfterTheOperatorHasStopped(t *testing.T) {
	t.Parallel()
	w := newRemoval(t)
	w.denied = "validatingwebhookconfigurations"
	waiting, _ := w.remove()
	require.True(t, waiting)
	require.True(t, w.exists(&appsv1.Deployment{}, "d"), "an operator that is still called continues to run")
	w.denied = "deployments"
	waiting, after := w.remove()
	require.True(t, waiting)
	require.Equal(t, maxStopping, after, "the wait has a time limit")
	require.Equal(t, apiextensionsv1.WebhookConverter, w.strategy())
	w.denied = ""
	waiting, _ = w.remove()
	require.True(t, waiting, "the Deployment is being deleted")
	require.Equal(t, apiextensionsv1.WebhookConverter, w.strategy())
	require.False(t, w.exists(&appsv1.Deployment{}, "d"))
	waiting, after = w.remove()
	require.False(t, waiting)
	require.Zero(t, after)
	require.Equal(t, apiextensionsv1.NoneConverter, w.strategy())
	require.True(t, w.exists(&appsv1.Deployment{}, "foreign"), "a Deployment that this install did not create is kept")
}

func TestAConversionIsResetEvenIfTheOperatorDoesNotStop(t *testing.T) {
	t.Parallel()
	w := newRemoval(t)
	w.denied = "deployments"
	waiting, _ := w.remove()
	require.True(t, waiting)
	w.clock.SetTime(w.clock.Now().Add(maxStopping))
	waiting, _ = w.remove()
	require.False(t, waiting)
	require.Equal(t, apiextensionsv1.NoneConverter, w.strategy())
}

func TestAConversionOfAnotherVersionIsNotReset(t *testing.T) {
	t.Parallel()
	w := newRemoval(t)
	other := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v0.9.0", UID: "o"}}
	other.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{Type: operatorsv1alpha1.ConversionWebhook, ConversionCRDs: []string{w.crd.Name}}}
	waiting, _ := w.remove(other)
	require.False(t, waiting)
	require.Equal(t, apiextensionsv1.WebhookConverter, w.strategy())
	require.True(t, w.exists(&appsv1.Deployment{}, "d"), "garbage collection deletes the Deployment")

	w = newRemoval(t, w.deployment("older", other.Name))
	other.DeletionTimestamp = w.csv.DeletionTimestamp
	waiting, _ = w.remove(other)
	require.True(t, waiting)
	waiting, _ = w.remove(other)
	require.True(t, waiting, "the Pods of the other version still run although that version is being deleted")
	require.Equal(t, apiextensionsv1.WebhookConverter, w.strategy())
	other.DeletionTimestamp, other.Spec.WebhookDefinitions = nil, nil
	waiting, _ = w.remove(other)
	require.False(t, waiting, "the other version has no conversion")
}

// kubectl delete --cascade=orphan does not stop the operator, even if the garbage collector has already removed its finalizer when
// the CSV is finalized.
func TestAnOrphanedOperatorAndItsConversionAreKept(t *testing.T) {
	t.Parallel()
	for _, isRemoved := range []bool{false, true} {
		w := newRemoval(t)
		orphaning := w.csv.DeepCopy()
		orphaning.Finalizers = append(orphaning.Finalizers, metav1.FinalizerOrphanDependents)
		require.True(t, w.r.orphaning.Predicate().Update(event.UpdateEvent{ObjectOld: w.csv, ObjectNew: orphaning}))
		if !isRemoved {
			w.csv.Finalizers = orphaning.Finalizers
			w.r.orphaning = &kit.Orphaning{}
		}
		waiting, _ := w.remove()
		require.False(t, waiting)
		require.Equal(t, apiextensionsv1.WebhookConverter, w.strategy())
		require.True(t, w.exists(&appsv1.Deployment{}, "d"))
	}
}

// An error would be retried for as long as the namespace is terminating.
func TestDetachWithoutAnAccountIsNotAnError(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", UID: "u"}}
	owner := (&Reconciler{Options: Options{Proofs: proofs.Keys()}}).ownerOf(csv, nil)
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	proofs.Mark(config, owner)
	c := indexed(t, csv, config)
	r := &Reconciler{Options: Options{Client: c, Live: c, Proofs: proofs.Keys()}, orphaning: &kit.Orphaning{}, rivals: &rivals{}}
	s := &scope{csv: csv, facts: Facts{CSV: csv}}
	left, _, err := r.callers(t.Context(), &scope{csv: csv, owner: owner}, false)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, r.detach(t.Context(), s), "the OperatorGroup was already deleted")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(config), config))
}

func TestCommandsAreQuotedForAShell(t *testing.T) {
	for name, want := range map[string]string{
		"plain:Name.v1_2@x": "plain:Name.v1_2@x", "$(id)": "'$(id)'", "a b": "'a b'", "it's": `'it'\''s'`, "a\nb": "'a\nb'", "é": "'é'",
	} {
		require.Equal(t, want, apply.ShellWord(name))
	}
}

// RBAC allows names that kubectl would read as options: "kubectl delete rolebinding -A" concerns all namespaces.
func TestNamesAreNotOptionsOfCommands(t *testing.T) {
	binding := &rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{Kind: "RoleBinding"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "-Al!x"}}
	require.Equal(t, "kubectl delete rolebinding -n ns -- '-Al!x'", apply.DeleteCommand(binding))
	now := metav1.Now()
	binding.DeletionTimestamp = &now
	require.Equal(t, `kubectl patch rolebinding -n ns --type=merge -p '{"metadata":{"finalizers":null}}' -- '-Al!x'`, excess.Command(binding))
	binding.Name = "x"
	require.Equal(t, `kubectl patch rolebinding x -n ns --type=merge -p '{"metadata":{"finalizers":null}}'`, excess.Command(binding))
}
