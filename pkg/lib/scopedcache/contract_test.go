package scopedcache_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
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

func TestT40HandlersReceiveEventsOfLaterClaims(t *testing.T) {
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

func TestT41ALateHandlerReceivesEachObjectOnce(t *testing.T) {
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

func TestT42ASlowHandlerDoesNotDelayOthers(t *testing.T) {
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
	require.Equal(t, map[string]float64{
		"feeds group= level=namespace resource=v1/Secret state=Live": 1,
		"claims level=cluster":                     0,
		"claims level=namespace":                   1,
		"claims level=object":                      0,
		"owners":                                   1,
		"objects group= resource=v1/Secret":        3,
		"pending_events group= resource=v1/Secret": 2, // the first event is being handled
		"feed_starts_total":                        1,
		"denied_total":                             0,
		"recovered_total":                          0,
		"handovers_total":                          0,
	}, metrics(t, registry))
	close(held)
	w.eventually(func(ct *assert.CollectT) {
		assert.Zero(ct, metrics(t, registry)["pending_events group= resource=v1/Secret"])
	})
}

// metrics returns each metric as "<name> <label>=<value> ...".
func metrics(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "scopedcache_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// Versions of a kind are watched separately.
func TestMetricsOfTwoVersions(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := prepare(t, func(o *scopedcache.Options) { o.Metrics = registry })
	w.Ensure(t.Context(), owner("o"),
		scopedcache.Claim{Kind: &autoscalingv1.HorizontalPodAutoscaler{}, Scope: scopedcache.Cluster()},
		scopedcache.Claim{Kind: &autoscalingv2.HorizontalPodAutoscaler{}, Scope: scopedcache.Cluster()})
	got := metrics(t, registry)
	require.Contains(t, got, "objects group=autoscaling resource=v1/HorizontalPodAutoscaler")
	require.Contains(t, got, "objects group=autoscaling resource=v2/HorizontalPodAutoscaler")
}

func TestT43RemoveInformer(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.ReadTimeout = 10 * patience })
	x, y := w.namespace(), w.namespace()
	w.grant(x, all)
	o := owner("o")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	e := w.handle(&corev1.Secret{})
	asked := make(chan struct{}, 1)
	w.log.intercept(func(r *http.Request) (*http.Response, error) {
		if describe(r) != "watch secrets "+y {
			return nil, nil
		}
		asked <- struct{}{}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	w.Ensure(t.Context(), o, secrets(scopedcache.Namespace(y)))
	<-asked
	failed := make(chan error, 1)
	go func() {
		_, err := w.read(y, "b")
		failed <- err
	}()
	select {
	case err := <-failed:
		require.Fail(t, "the read did not wait", "%v", err)
	case <-time.After(settled):
	}
	require.NoError(t, w.RemoveInformer(t.Context(), &corev1.Secret{}))
	requireNotCovered(t, <-failed)
	w.log.intercept(nil)
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

// This test is not parallel, because it counts goroutines.
func TestT44StartAndStop(t *testing.T) {
	running := goroutines(t)
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
	require.ErrorContains(t, w.Start(ctx), "already started")
	w.handle(&corev1.Secret{})
	w.claim(owner("o"), scopedcache.Denied, secrets(scopedcache.Namespace("elsewhere")))
	informer, err := w.GetInformer(ctx, &corev1.Secret{})
	require.NoError(t, err)
	require.Positive(t, running())
	cancel()
	require.NoError(t, <-ended)
	require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.Zero(ct, running()) }, time.Minute, 10*time.Millisecond,
		"goroutines may still be exiting after Start returned")
	require.True(t, informer.IsStopped())
	w.watches()
	_, err = w.read(x, "a")
	require.Error(t, err)
}

// reconciler is a sample operator that creates a Deployment for each ConfigMap.
type reconciler struct {
	client.Client
	seen func(reconcile.Request)
}

func (r reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cm := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, cm); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cm.Name == "kube-root-ca.crt" { // the control plane creates this ConfigMap in each namespace
		return reconcile.Result{}, nil
	}
	r.seen(req)
	o, err := scopedcache.OwnerOf(cm, r.Scheme())
	if err != nil {
		return reconcile.Result{}, err
	}
	d := &appsv1.Deployment{}
	err = r.Get(scopedcache.WithOwner(ctx, o), req.NamespacedName, d)
	if apierrors.IsForbidden(err) {
		return reconcile.Result{}, nil // Changes enqueues the request again when the permission changes
	}
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

// managed runs a manager with the cache and returns the requests that its controller receives.
func (w *world) managed(options scopedcache.Options, defaults cache.Options, change ...func(*ctrl.Options)) (seen func() []string, made *scopedcache.Cache) {
	w.Helper()
	managed := ctrl.Options{
		NewCache: scopedcache.Builder(options, &made), Cache: defaults, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), ReconciliationTimeout: time.Second},
	}
	for _, c := range change {
		c(&managed)
	}
	mgr, err := ctrl.NewManager(w.config, managed)
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

func TestT45AManagerUsesTheCache(t *testing.T) {
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

	// The watch continues after the reconcile times out, and its events enqueue the owner.
	<-time.After(1500 * time.Millisecond)
	require.Equal(t, []string{x + "/a"}, w.log.open("deployments"))
	before := len(seen())
	require.NoError(t, w.admin.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))))
	w.eventually(func(ct *assert.CollectT) { assert.Greater(ct, len(seen()), before) })

	// A controller's Watches also receives events for objects that other owners claim, even if the kind is not primary.
	before = len(seen())
	w.secret(x, "a")
	made.Ensure(t.Context(), owner("other"), secrets(scopedcache.Namespace(x)))
	w.eventually(func(ct *assert.CollectT) { assert.Greater(ct, len(seen()), before) })

	require.NoError(t, w.admin.Delete(t.Context(), cm))
	w.eventually(func(ct *assert.CollectT) { assert.Empty(ct, w.log.open("deployments")) })
	require.False(t, made.NeedLeaderElection())
}

// The cache starts its watches before the manager becomes the leader, and keeps them when the manager becomes the leader.
func TestT45BecomingLeaderRestartsNoWatch(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x := w.namespace()
	w.grantOn("", "configmaps", "", all)
	w.grantOn("apps", "deployments", x, []string{"list", "watch", "create"})
	w.grantOn("coordination.k8s.io", "leases", x, []string{"get", "create", "update"})
	w.grantOn("", "events", x, []string{"create", "patch"})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "leader"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To(int32(3600)), RenewTime: &metav1.MicroTime{Time: time.Now()}, AcquireTime: &metav1.MicroTime{Time: time.Now()},
	}}
	require.NoError(t, w.admin.Create(t.Context(), lease))
	require.NoError(t, w.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "a"}}))
	seen, made := w.managed(scopedcache.Options{Linger: -1, Primary: []client.Object{&corev1.ConfigMap{}}}, cache.Options{}, func(o *ctrl.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "leader", x
		o.RetryPeriod, o.RenewDeadline, o.LeaseDuration = ptr.To(100*time.Millisecond), ptr.To(60*time.Second), ptr.To(90*time.Second)
	})
	_, err := made.GetInformer(t.Context(), &corev1.ConfigMap{})
	require.NoError(t, err)
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, made.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, &corev1.ConfigMap{}))
	})
	require.Empty(t, seen(), "the manager is not the leader")
	before := w.log.take("configmaps")
	require.Len(t, before, 1)
	require.NoError(t, w.admin.Delete(t.Context(), lease))
	w.eventually(func(ct *assert.CollectT) { assert.Contains(ct, seen(), x+"/a") })
	require.Empty(t, w.log.take("configmaps"), "the watch continues")
}

// A custom resource is reconciled again only when the permissions that it needs change.
func TestT45ChangesReconcileTheOwner(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x := w.namespace()
	w.grantOn("", "configmaps", x, all)
	revoke := w.grantOn("apps", "deployments", x, []string{"list", "watch", "create"})
	seen, made := w.managed(scopedcache.Options{
		Linger: -1, Primary: []client.Object{&corev1.ConfigMap{}}, RecheckPeriod: -1, Retry: scopedcache.Retry{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond},
	}, cache.Options{DefaultNamespaces: map[string]cache.Config{x: {}}})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "a"}}
	require.NoError(t, w.admin.Create(t.Context(), cm))
	of, err := scopedcache.OwnerOf(cm, w.admin.Scheme())
	require.NoError(t, err)
	state := func(want scopedcache.State) {
		t.Helper()
		w.eventually(func(ct *assert.CollectT) {
			status := made.Status(of)
			if assert.Len(ct, status, 1) {
				assert.Equal(ct, want, status[0].State)
			}
		})
	}
	state(scopedcache.Live)
	quiet := func() int { // wait until there have been no reconciles for some time
		t.Helper()
		count := -1
		for n := len(seen()); n != count; n = len(seen()) {
			count = n
			<-time.After(5 * settled)
		}
		return count
	}
	before := quiet()
	revoke()
	w.eventually(func(ct *assert.CollectT) {
		made.Recheck(x)
		assert.Equal(ct, scopedcache.Denied, made.Status(of)[0].State)
	})
	w.eventually(func(ct *assert.CollectT) { assert.Greater(ct, len(seen()), before) })
	before = len(seen())
	w.grantOn("apps", "deployments", x, []string{"list", "watch", "create"})
	state(scopedcache.Live)
	w.eventually(func(ct *assert.CollectT) { assert.Greater(ct, len(seen()), before) })
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

// A handler has synced when it has handled the initial lists, not when the cache has received them.
func TestT40HasSyncedWaitsForTheHandler(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	w.secret(x, "b")
	static := owner("static")
	w.Ensure(t.Context(), static, secrets(scopedcache.Namespace(x)))
	informer, err := w.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	held := make(chan struct{})
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-held }})
	require.NoError(t, err)
	w.start()
	w.becomes(static, scopedcache.Namespace(x), scopedcache.Live)
	require.False(t, handle.HasSynced(), "the first object is being handled")
	close(held)
	w.eventually(func(ct *assert.CollectT) { assert.True(ct, handle.HasSynced()) })
}

func TestListTypesAreRefused(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	_, err := w.GetInformerForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("SecretList"))
	require.ErrorContains(t, err, "not the kind of a client.Object")
}

func TestUnsupportedOptionsAreRefused(t *testing.T) {
	t.Parallel()
	one, first := labels.SelectorFromSet(labels.Set{"a": "b"}), fields.OneTermEqualSelector("metadata.name", "a")
	ofNamespace := func(c cache.Config) cache.Options {
		return cache.Options{DefaultNamespaces: map[string]cache.Config{"x": c}}
	}
	ofKind := func(by cache.ByObject) cache.Options {
		return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: by}}
	}
	for name, c := range map[string]struct {
		options cache.Options
		hint    string
	}{
		"no deep copies of any kind":        {cache.Options{DefaultUnsafeDisableDeepCopy: ptr.To(true)}, "use Options.ByKind"},
		"failing reads without an informer": {cache.Options{ReaderFailOnMissingInformer: true}, "use Options.Uncovered"},
		"no bookmarks":                      {cache.Options{DefaultEnableWatchBookmarks: ptr.To(false)}, "bookmarks"},
		"no bookmarks of a kind":            {ofKind(cache.ByObject{EnableWatchBookmarks: ptr.To(false)}), "bookmarks"},
		"namespaces of a kind":              {ofKind(cache.ByObject{Namespaces: map[string]cache.Config{"x": {}}}), "use claims"},
		"labels in a namespace":             {ofNamespace(cache.Config{LabelSelector: one}), "use Options.ByKind"},
		"fields in a namespace":             {ofNamespace(cache.Config{FieldSelector: first}), "use Options.ByKind"},
		"a transform in a namespace":        {ofNamespace(cache.Config{Transform: cache.TransformStripManagedFields()}), "use Options.ByKind"},
		"no deep copies in a namespace":     {ofNamespace(cache.Config{UnsafeDisableDeepCopy: ptr.To(true)}), "use Options.ByKind"},
		"no bookmarks in a namespace":       {ofNamespace(cache.Config{EnableWatchBookmarks: ptr.To(false)}), "bookmarks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := scopedcache.Builder(scopedcache.Options{}, nil)(&rest.Config{Host: "http://localhost"}, c.options)
			require.ErrorContains(t, err, c.hint)
		})
	}
	_, err := scopedcache.Builder(scopedcache.Options{}, nil)(&rest.Config{Host: "http://localhost"}, cache.Options{DefaultEnableWatchBookmarks: ptr.To(true)})
	require.NoError(t, err, "bookmarks are enabled")
}

// After the cache has stopped, claims keep their states.
func TestWaitReturnsWhenTheCacheStops(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	server := roundTripper(func(r *http.Request) (*http.Response, error) { return unanswered(r), nil })
	c, err := scopedcache.New(&rest.Config{Host: "http://scripted"}, scopedcache.Options{Mapper: mapper, HTTPClient: &http.Client{Transport: server}})
	require.NoError(t, err)
	c.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
	ctx, cancel := context.WithCancel(t.Context())
	ended, waited := make(chan error, 1), make(chan error, 2)
	wait := func() {
		_, err := c.Wait(t.Context(), owner("o"))
		waited <- err
	}
	go wait()
	go func() { ended <- c.Start(ctx) }()
	require.Eventually(t, func() bool { return c.WaitForCacheSync(ctx) }, patience, time.Millisecond)
	require.Empty(t, waited, "the claim is still Syncing")
	cancel()
	require.NoError(t, <-ended)
	go wait()
	for range 2 {
		select {
		case err := <-waited:
			require.ErrorContains(t, err, "the cache is stopped")
		case <-time.After(10 * time.Second):
			require.Fail(t, "Wait did not return")
		}
	}
}
