package scopedcache_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

func TestT40HandlersHearOfLaterClaims(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y := w.namespace(), w.namespace()
	w.grant(x, all)
	w.grant(y, all)
	w.secret(x, "a")
	w.secret(y, "b")
	informer, err := w.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	require.True(t, informer.HasSynced())
	initial := make(chan string, 10)
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: func(obj any, isInitial bool) {
		initial <- obj.(client.Object).GetName() + map[bool]string{true: " initial"}[isInitial]
	}})
	require.NoError(t, err)
	w.eventually(func(ct *assert.CollectT) { assert.True(ct, handle.HasSynced()) })
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	require.Equal(t, "a initial", <-initial)
	w.secret(x, "c")
	require.Equal(t, "c", <-initial)
	require.NoError(t, informer.RemoveEventHandler(handle))
	require.NoError(t, informer.RemoveEventHandler(handle))
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(y)))
	require.Empty(t, initial)
	require.False(t, informer.IsStopped())
}

func TestT41ALateHandlerHearsOfEachObjectOnce(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	for _, name := range []string{"a", "b"} {
		w.secret(x, name)
	}
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	e := w.handle(&corev1.Secret{})
	require.ElementsMatch(t, []string{"add a", "add b"}, e.take())
	w.secret(x, "c")
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add c"}, peek(e)) })
}

func TestT42ASlowHandlerDelaysNoOther(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := given(t, func(o *scopedcache.Options) { o.Metrics = registry })
	x := w.namespace()
	w.grant(x, all)
	informer, err := w.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	held := make(chan struct{})
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-held }})
	require.NoError(t, err)
	e := w.handle(&corev1.Secret{})
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	for _, name := range []string{"a", "b", "c"} {
		w.secret(x, name)
	}
	w.eventually(func(ct *assert.CollectT) { assert.Len(ct, peek(e), 3) })
	_, err = w.read(x, "c")
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, family := range families {
		text.WriteString(family.String() + "\n")
	}
	for _, part := range []string{"scopedcache_pending_events", "scopedcache_objects", "scopedcache_owners", `value:"namespace"`, `value:"Live"`} {
		require.Contains(t, text.String(), part)
	}
	require.NotContains(t, text.String(), x)
	close(held)
}

func TestT43RemoveInformer(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.ReadTimeout = 10 * patience })
	x, y := w.namespace(), w.namespace()
	w.grant(x, all)
	o := owner("o")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	e := w.handle(&corev1.Secret{})
	require.NoError(t, w.RemoveInformer(t.Context(), &corev1.Secret{}))
	w.watches()
	require.Empty(t, w.Status(o))
	_, err := w.read(x, "a")
	requireNotCovered(t, err)
	w.grant(y, all)
	w.secret(y, "b")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(y)))
	_, err = w.read(y, "b")
	require.NoError(t, err)
	require.Empty(t, e.take())
}

func TestT44StartAndEnd(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace(x)))
	_, err := w.read(x, "a")
	var not *cache.ErrCacheNotStarted
	require.ErrorAs(t, err, &not)
	require.Empty(t, w.log.take("secrets"))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	w.becomes(owner("o"), scopedcache.Namespace(x), scopedcache.Live)
	require.ErrorContains(t, w.Start(ctx), "started before")
	informer, err := w.GetInformer(ctx, &corev1.Secret{})
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-ended)
	require.True(t, informer.IsStopped())
	w.watches()
	_, err = w.read(x, "a")
	require.Error(t, err)
}

// reconciler makes a Deployment for each ConfigMap, as an operator would.
type reconciler struct {
	client.Client
	seen func(reconcile.Request)
}

func (r reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cm := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, cm); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cm.Name == "kube-root-ca.crt" { // the control plane makes one in each namespace
		return reconcile.Result{}, nil
	}
	r.seen(req)
	o, err := scopedcache.OwnerOf(cm, r.Scheme())
	if err != nil {
		return reconcile.Result{}, err
	}
	d := &appsv1.Deployment{}
	err = r.Get(scopedcache.WithOwner(ctx, o), req.NamespacedName, d)
	if client.IgnoreNotFound(err) != nil || err == nil {
		return reconcile.Result{}, err
	}
	labels := map[string]string{"app": cm.Name}
	d = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
	if err := ctrl.SetControllerReference(cm, d, r.Scheme(), controllerutil.WithBlockOwnerDeletion(false)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, client.IgnoreAlreadyExists(r.Create(ctx, d))
}

// managed runs a manager on the cache and returns the requests that its controller has seen.
func (w *world) managed(options scopedcache.Options, defaults cache.Options) (seen func() []string, made *scopedcache.Cache) {
	w.Helper()
	mgr, err := ctrl.NewManager(w.config, ctrl.Options{
		NewCache: scopedcache.Builder(options, &made), Cache: defaults, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), ReconciliationTimeout: time.Second},
	})
	require.NoError(w, err)
	var mu sync.Mutex
	var requests []string
	r := reconciler{Client: mgr.GetClient(), seen: func(req reconcile.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, req.String())
	}}
	require.NoError(w, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).
		Watches(&corev1.Secret{}, &handler.EnqueueRequestForObject{}).WatchesRawSource(made.Changes(nil)).Complete(r))
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		require.NoError(w, <-ended)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, requests...)
	}, made
}

func TestT45AManagerRunsOnIt(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x := w.namespace()
	w.grantOn("", "configmaps", "", all)
	w.grantOn("apps", "deployments", x, []string{"list", "watch", "create"})
	w.grant(x, all)
	seen, made := w.managed(scopedcache.Options{Linger: -1, Primary: []client.Object{&corev1.ConfigMap{}}}, cache.Options{})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "a"}}
	require.NoError(t, w.admin.Create(t.Context(), cm))
	d := &appsv1.Deployment{}
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, w.admin.Get(t.Context(), client.ObjectKeyFromObject(cm), d))
	})
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{x + "/a"}, w.log.open("deployments")) })

	// The watch outlives the reconcile's timeout, and its events enqueue the owner.
	<-time.After(1500 * time.Millisecond)
	require.Equal(t, []string{x + "/a"}, w.log.open("deployments"))
	before := len(seen())
	require.NoError(t, w.admin.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))))
	w.eventually(func(ct *assert.CollectT) { assert.Greater(ct, len(seen()), before) })

	// Watches of a kind that is not primary hears of what others claim.
	before = len(seen())
	w.secret(x, "a")
	made.Ensure(t.Context(), owner("other"), secrets(scopedcache.Namespace(x)))
	w.eventually(func(ct *assert.CollectT) { assert.Greater(ct, len(seen()), before) })

	require.NoError(t, w.admin.Delete(t.Context(), cm))
	w.eventually(func(ct *assert.CollectT) { assert.Empty(ct, w.log.open("deployments")) })
	require.False(t, made.NeedLeaderElection())
}

func TestT46APrimaryKindInSomeNamespaces(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x, y, z := w.namespace(), w.namespace(), w.namespace()
	for _, ns := range []string{x, y} {
		w.grantOn("", "configmaps", ns, all)
	}
	w.grantOn("apps", "deployments", "", []string{"list", "watch", "create"})
	for _, ns := range []string{x, y, z} {
		require.NoError(t, w.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}}))
	}
	seen, _ := w.managed(scopedcache.Options{
		Primary: []client.Object{&corev1.ConfigMap{}}, Retry: scopedcache.Retry{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond},
	}, cache.Options{DefaultNamespaces: map[string]cache.Config{x: {}, y: {}}})
	w.eventually(func(ct *assert.CollectT) {
		assert.Contains(ct, seen(), x+"/a")
		assert.Contains(ct, seen(), y+"/a")
	})
	w.eventually(func(ct *assert.CollectT) { assert.ElementsMatch(ct, []string{x, y}, w.log.open("configmaps")) })
	require.NotContains(t, seen(), z+"/a")
	w.grantOn("", "configmaps", "", all)
	w.eventually(func(ct *assert.CollectT) { assert.Contains(ct, seen(), z+"/a") })
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{""}, w.log.open("configmaps")) })
}

func TestUnsupportedOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]cache.Options{
		"use Options.ByKind": {DefaultTransform: cache.TransformStripManagedFields()},
		"use claims":         {ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{"x": {}}}}},
	} {
		_, err := scopedcache.Builder(scopedcache.Options{}, nil)(nil, o)
		require.ErrorContains(t, err, name)
	}
}
