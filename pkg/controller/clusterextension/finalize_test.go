package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/proofs"
)

// identityClients returns the same client, or the same error, for each identity.
type identityClients struct {
	Clients
	client client.WithWatch
	err    error
}

func (c *identityClients) As(context.Context, scoped.Identity) (client.WithWatch, error) {
	return c.client, c.err
}

// deletion is an extension that is being deleted, with a Deployment and a converted CustomResourceDefinition that is kept.
type deletion struct {
	*unit
	ext      *olmv1.ClusterExtension
	clients  *identityClients
	recorder *events.FakeRecorder
}

// givenDeletion returns a deletion. edit changes the Deployment.
func givenDeletion(t *testing.T, calls interceptor.Funcs, edit func(*appsv1.Deployment)) *deletion {
	t.Helper()
	ext := extension("op", func(ext *olmv1.ClusterExtension) {
		now := metav1.Now()
		ext.Finalizers, ext.DeletionTimestamp = []string{names.FinalizerExtension}, &now
		ext.Status.Inventory = []olmv1.InventoryObject{{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "op"}}
	})
	owner := givenUnit(t, interceptor.Funcs{}).owner(ext)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op", UID: "uid-d", OwnerReferences: []metav1.OwnerReference{owner.Reference()}}}
	proofs.Mark(d, owner)
	edit(d)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: "things.example.com", UID: "uid-crd", Annotations: map[string]string{names.AnnotationConversion: "ns/op-service"},
	}}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "ns", Name: "op-service"}},
	}}
	proofs.Mark(crd, owner)
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.apps"}, Spec: apiregistrationv1.APIServiceSpec{Group: "apps", Version: "v1"}}
	u := givenUnit(t, calls, ext, d, crd, api)
	out := &deletion{unit: u, ext: ext, recorder: events.NewFakeRecorder(10)}
	shared, ok := u.Client.(client.WithWatch)
	require.True(t, ok)
	out.clients = &identityClients{client: shared}
	u.RBAC = rbac.Unreadable(errors.New("not in this test"))
	u.Clients, u.Recorder, u.watches, u.unserved = out.clients, out.recorder, newWatches(nil, nil, nil, nil), kinds.NewUnserved(u.clock)
	u.confirmer, u.issued = &preflight.Confirmer{}, &hooks.Memory{}
	return out
}

// finalize finalizes the extension once. deleted is true if it no longer exists afterwards.
func (d *deletion) finalize() (result ctrl.Result, deleted bool, err error) {
	d.t.Helper()
	ext := &olmv1.ClusterExtension{}
	require.NoError(d.t, d.Client.Get(d.t.Context(), client.ObjectKeyFromObject(d.ext), ext))
	result, err = d.Reconciler.finalize(d.t.Context(), ext)
	return result, !d.exists(ext), err
}

func (d *deletion) exists(obj client.Object) bool {
	d.t.Helper()
	err := d.Client.Get(d.t.Context(), client.ObjectKeyFromObject(obj), obj)
	require.NoError(d.t, client.IgnoreNotFound(err))
	return err == nil
}

func (d *deletion) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op"}}
}

func (d *deletion) strategy() apiextensionsv1.ConversionStrategyType {
	d.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(d.t, d.Client.Get(d.t.Context(), client.ObjectKey{Name: "things.example.com"}, crd))
	return crd.Spec.Conversion.Strategy
}

func (d *deletion) warned() bool { return len(d.recorder.Events) > 0 }

func unchanged(*appsv1.Deployment) {}

func TestFinalizationStopsTheOperator(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit               func(*appsv1.Deployment)
		isStopped, isReset bool
		warns              bool
	}{
		"stops the extension's operator": {edit: unchanged, isStopped: true, isReset: true},
		// The garbage collector removes the owner references, and then the finalizer "orphan". When the extension is finalized, that
		// finalizer may already be missing.
		"keeps an orphaned operator":         {edit: func(d *appsv1.Deployment) { d.OwnerReferences = nil }},
		"keeps a Deployment of another user": {edit: func(d *appsv1.Deployment) { d.Labels, d.Annotations, d.OwnerReferences = nil, nil, nil }, isReset: true},
		// The Pods of the Deployment continue to run without the conversion.
		"keeps a Deployment without a proof": {edit: func(d *appsv1.Deployment) { delete(d.Annotations, names.AnnotationProof) }, warns: true},
	} {
		d := givenDeletion(t, interceptor.Funcs{}, tc.edit)
		_, deleted, err := d.finalize()
		require.NoError(t, err, name)
		require.True(t, deleted, name)
		require.Equal(t, !tc.isStopped, d.exists(d.deployment()), name)
		require.Equal(t, tc.isReset, d.strategy() == apiextensionsv1.NoneConverter, name)
		require.Equal(t, tc.warns, d.warned(), name)
	}
}

// The API server must not call an operator that is stopped. Configurations of other users with the name of one of them are kept.
func TestFinalizationRemovesTheWebhooks(t *testing.T) {
	t.Parallel()
	for name, isOwn := range map[string]bool{"of the extension": true, "of another user": false} {
		d := givenDeletion(t, interceptor.Funcs{}, unchanged)
		config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-v"}}
		if isOwn {
			proofs.Mark(config, d.owner(d.ext))
		}
		require.NoError(t, d.Client.Create(t.Context(), config))
		group := admissionregistrationv1.GroupName
		require.NoError(t, d.Client.Create(t.Context(), &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
			Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1"}}))
		d.ext.Status.Inventory = append(d.ext.Status.Inventory, olmv1.InventoryObject{Group: group, Kind: "ValidatingWebhookConfiguration", Name: "v"})
		_, err := d.Reconciler.finalize(t.Context(), d.ext)
		require.NoError(t, err, name)
		require.Equal(t, !isOwn, d.exists(config), name)
	}
}

// The finalizer "orphan" is missing when the extension is finalized, and a reconcile that began before the deletion has restored
// the owner references.
func TestFinalizationRemembersAnOrphaningDeletion(t *testing.T) {
	t.Parallel()
	d := givenDeletion(t, interceptor.Funcs{}, unchanged)
	orphaning := d.ext.DeepCopy()
	orphaning.Finalizers = append(orphaning.Finalizers, metav1.FinalizerOrphanDependents)
	require.True(t, d.orphaning.Predicate().Update(event.UpdateEvent{ObjectOld: d.ext, ObjectNew: orphaning}))
	_, deleted, err := d.finalize()
	require.NoError(t, err)
	require.True(t, deleted)
	require.True(t, d.exists(d.deployment()))
	require.Equal(t, apiextensionsv1.WebhookConverter, d.strategy())
	require.False(t, d.warned())
}

// The cache does not show yet that the extension is being deleted, and the garbage collector has removed the owner references. If
// they were restored, it would delete the objects.
func TestAnOrphaningDeletionIsNotedBeforeOwnerReferencesAreRestored(t *testing.T) {
	t.Parallel()
	cached := extension("op")
	deleting := cached.DeepCopy()
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: time.Now()}, []string{names.FinalizerExtension}
	for name, tc := range map[string]struct {
		live    *olmv1.ClusterExtension
		removed bool
		want    error
	}{
		"the extension is being deleted":              {live: deleting, removed: true, want: errStale},
		"another client removed the owner references": {live: cached, removed: true},
		"the object still has its owner references":   {live: deleting}, // the write fails if they are removed in the meantime
	} {
		owner := givenUnit(t, interceptor.Funcs{}).owner(cached)
		live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op", UID: "uid-c"}}
		if !tc.removed {
			live.OwnerReferences = []metav1.OwnerReference{owner.Reference()}
		}
		proofs.Mark(live, owner)
		u := givenUnit(t, interceptor.Funcs{}, tc.live.DeepCopy(), live)
		s := u.begin(cached)
		s.rendered, s.pass, s.executor = &render.Rendered{}, &pass{marks: map[string]*mark{}}, &execute.Executor{Account: u.Client, CRDs: u.Client, Facts: u.Client}
		desired := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		desired.SetNamespace("ns")
		desired.SetName("op")
		desired.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
		st := step.Step{Object: desired, Owner: owner}
		found, err := apply.Live(t.Context(), u.Client, desired)
		require.NoError(t, err)
		s.states[desired] = execute.State{Step: st, Live: found}
		err = s.applyOne(t.Context(), st)
		require.ErrorIs(t, err, tc.want, name)
		if tc.want == nil {
			require.NoError(t, err, name)
		}
		require.NoError(t, u.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		require.Equal(t, tc.want == nil, len(live.OwnerReferences) > 0, name)
	}
}

// The garbage collector has removed the owner references before the installer of certificates reads the object.
func TestAnOrphaningDeletionIsNotedBeforeCertificatesAreWritten(t *testing.T) {
	t.Parallel()
	cached := extension("op")
	deleting := cached.DeepCopy()
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: time.Now()}, []string{names.FinalizerExtension}
	for _, tc := range []struct {
		live *olmv1.ClusterExtension
		want error
	}{{deleting, errStale}, {cached, nil}} {
		owner := givenUnit(t, interceptor.Funcs{}).owner(cached)
		live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op", UID: "uid-c"}}
		proofs.Mark(live, owner)
		u := givenUnit(t, interceptor.Funcs{}, tc.live.DeepCopy(), live)
		s := u.begin(cached)
		s.executor = &execute.Executor{Account: u.Client}
		desired := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		desired.SetNamespace("ns")
		desired.SetName("op")
		desired.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
		_, _, err := apply.Ensure(t.Context(), s.installer().Account, desired, owner)
		require.ErrorIs(t, err, tc.want)
		patch := client.MergeFrom(live.DeepCopy())
		live.Data = map[string]string{"patched": "true"}
		require.ErrorIs(t, s.installer().Account.Patch(t.Context(), live, patch), tc.want)
		require.NoError(t, u.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		require.Equal(t, tc.want == nil, len(live.OwnerReferences) > 0)
		require.Equal(t, tc.want == nil, len(live.Data) > 0)
	}
}

func TestFinalizationDoesNotWaitForEnrollment(t *testing.T) {
	t.Parallel()
	d := givenDeletion(t, interceptor.Funcs{}, unchanged)
	d.clients.err = fmt.Errorf("impersonate: %w", &scoped.Error{Reason: scoped.AccountNotEnrolled, Message: "not enrolled"})
	_, deleted, err := d.finalize()
	require.NoError(t, err)
	require.True(t, deleted)
	require.True(t, d.warned())
}

// The time that Pods take to terminate does not count toward the ten minutes.
func TestFinalizationMayFailForTenMinutes(t *testing.T) {
	t.Parallel()
	failing := errors.New("the API server is not available")
	d := givenDeletion(t, interceptor.Funcs{}, unchanged)
	d.clock.SetTime(d.ext.DeletionTimestamp.Add(time.Hour))
	begun := d.clock.Now()
	d.clients.err = failing
	for _, after := range []time.Duration{0, 9 * time.Minute} {
		d.clock.SetTime(begun.Add(after))
		_, deleted, err := d.finalize()
		require.ErrorIs(t, err, failing)
		require.False(t, deleted)
		require.False(t, d.warned())
	}
	d.clock.SetTime(begun.Add(11 * time.Minute))
	_, deleted, err := d.finalize()
	require.NoError(t, err)
	require.True(t, deleted)
	require.True(t, d.warned())
	require.Equal(t, apiextensionsv1.WebhookConverter, d.strategy())
}

// The first delays of the finalization are short, even if those of the install were long.
func TestFinalizationBeginsWithAShortDelay(t *testing.T) {
	t.Parallel()
	d := givenDeletion(t, interceptor.Funcs{}, func(d *appsv1.Deployment) { d.Finalizers = []string{metav1.FinalizerDeleteDependents} })
	d.memory.Change("op", func(is *remembered) { is.uid, is.delay = d.ext.UID, lastRetry })
	for _, want := range []time.Duration{firstRetry, 2 * firstRetry} {
		result, deleted, err := d.finalize()
		require.NoError(t, err)
		require.False(t, deleted)
		require.Equal(t, want, result.RequeueAfter)
		require.Equal(t, apiextensionsv1.WebhookConverter, d.strategy())
	}
}

// A cache that still shows a conversion that the same run has reset must not cause the finalizer to be set.
func TestConversionsThatWereResetDoNotDelayTheDeletion(t *testing.T) {
	t.Parallel()
	d := givenDeletion(t, interceptor.Funcs{}, unchanged)
	s := d.begin(d.ext)
	converted, err := s.conversions(t.Context())
	require.NoError(t, err)
	require.Len(t, converted, 1)
	s.reset[converted[0].Name] = true
	converted, err = s.conversions(t.Context())
	require.NoError(t, err)
	require.Empty(t, converted)
}

func TestALimitedInventoryContainsTheOperator(t *testing.T) {
	t.Parallel()
	var all []olmv1.InventoryObject
	for i := range olmv1.MaxInventory {
		all = append(all, olmv1.InventoryObject{Kind: "ConfigMap", Namespace: "ns", Name: fmt.Sprintf("c%04d", i)})
	}
	operator := olmv1.InventoryObject{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "op"}
	hook := olmv1.InventoryObject{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration", Name: "v"}
	got := limitInventory(append(all, operator, hook, operator))
	require.Len(t, got, olmv1.MaxInventory)
	require.Equal(t, []olmv1.InventoryObject{hook, operator}, got[len(got)-2:])
	require.True(t, slices.IsSortedFunc(got, compareInventory))
}
