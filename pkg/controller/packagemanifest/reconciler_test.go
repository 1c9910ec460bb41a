package packagemanifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/turns"
	"github.com/remit-olm/remit/pkg/packages"
)

// server implements Server in memory.
type server struct {
	mu        sync.Mutex
	has       map[types.NamespacedName]Known
	completed bool
	requests  []string
	err       error
	// full contains the catalogs for which there is no room.
	full map[types.NamespacedName]bool
	// meanwhile, if not nil, is called while the server refuses a catalog for which it has no room.
	meanwhile func()
	// ended is closed when the server stops.
	ended chan struct{}
}

func newServer() *server {
	return &server{has: map[types.NamespacedName]Known{}, ended: make(chan struct{})}
}

func (s *server) Catalogs(context.Context) (map[types.NamespacedName]Known, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.has), "1", nil
}

func (s *server) Wait(ctx context.Context, _ string) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// restart restarts the server without its catalogs.
func (s *server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has, s.completed, s.requests = map[types.NamespacedName]Known{}, false, nil
	close(s.ended)
	s.ended = make(chan struct{})
}

func (s *server) Put(_ context.Context, key types.NamespacedName, body io.Reader) error {
	d, h, err := packages.NewDecoder(body)
	if err != nil {
		return err
	}
	for err == nil {
		_, _, err = d.Next()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, "put "+key.String())
	if s.err != nil {
		return s.err
	}
	if s.full[key] {
		if s.meanwhile != nil {
			s.mu.Unlock()
			s.meanwhile()
			s.mu.Lock()
		}
		return apierrors.NewRequestEntityTooLargeError("no room")
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	s.has[key] = Known{Digest: h.Digest, UID: h.Source.UID}
	return nil
}

func (s *server) Delete(_ context.Context, key types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, "delete "+key.String())
	delete(s.has, key)
	return nil
}

func (s *server) Complete(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.completed = true
	return nil
}

func (s *server) state() (keys []string, completed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.has {
		keys = append(keys, key.String())
	}
	return slices.Sorted(slices.Values(keys)), s.completed
}

// world is a Reconciler with its dependencies.
type world struct {
	*testing.T
	*Reconciler
	server *server
	client client.Client
	woken  sync.WaitGroup // of the reconciles that a session has started
}

func given(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, apiregistrationv1.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(newObject().GroupVersionKind(), &unstructured.Unstructured{})
	w := &world{T: t, server: newServer(), client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	var err error
	w.Reconciler, err = New(Options{Cache: w.client, Catalogs: &catalog.Store{}, GlobalNamespace: "global", Server: w.server})
	require.NoError(t, err)
	w.interval = 0
	return w
}

// source creates a CatalogSource with content.
func (w *world) source(namespace, name, uid string) types.NamespacedName {
	w.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	cs := newObject()
	cs.SetNamespace(namespace)
	cs.SetName(name)
	cs.SetUID(types.UID(uid))
	require.NoError(w, w.client.Create(w.Context(), cs))
	w.publish(key, "1")
	return key
}

func (w *world) publish(key types.NamespacedName, digest string) {
	w.Catalogs.Put(&catalog.Snapshot{Key: key, Digest: digest, Packages: map[string]*catalog.Package{"a": {Name: "a"}}})
}

func (w *world) available() {
	w.Helper()
	a := &apiregistrationv1.APIService{}
	a.Name = apiService
	a.Spec.Service = &apiregistrationv1.ServiceReference{Name: "x"}
	a.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue}}
	require.NoError(w, w.client.Create(w.Context(), a))
	w.sessions.wakeUp()
}

// start runs the sessions, and reconciles what they wake.
func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.sessions.wake = func(key types.NamespacedName) { w.woken.Go(func() { _ = w.reconcile(key) }) } // the tests check the result
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.sessions.Start(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-ended
		w.woken.Wait()
	})
}

func (w *world) reconcile(key types.NamespacedName) error {
	_, err := w.Reconcile(w.Context(), ctrl.Request{NamespacedName: key})
	return err
}

// requests returns the recorded requests.
func (w *world) requests() []string {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return slices.Clone(w.server.requests)
}

// sent returns the recorded requests, and removes them from the record.
func (w *world) sent() []string {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	out := w.server.requests
	w.server.requests = nil
	return out
}

func (w *world) await(want ...string) {
	w.Helper()
	require.EventuallyWithT(w, func(c *assert.CollectT) {
		got, completed := w.server.state()
		assert.ElementsMatch(c, want, got)
		assert.True(c, completed)
	}, time.Minute, time.Millisecond)
}

func TestSendsCatalogsInASession(t *testing.T) {
	w := given(t)
	one, two := w.source("a", "one", "u1"), w.source("b", "two", "u2")
	gone := types.NamespacedName{Namespace: "c", Name: "gone"}
	w.server.has[gone] = Known{Digest: "x", UID: "u3"}
	w.start()
	require.NoError(t, w.reconcile(one), "without package-server, nothing is sent")
	require.Empty(t, w.requests())
	w.available()
	w.await("a/one", "b/two")

	w.sent()
	require.NoError(t, w.reconcile(one))
	require.Empty(t, w.requests(), "the content is the same")
	w.publish(one, "2")
	require.NoError(t, w.reconcile(one))
	require.Equal(t, []string{"put a/one"}, w.requests())
	w.Catalogs.SetUnavailable(two)
	require.NoError(t, w.reconcile(two))
	require.Equal(t, []string{"put a/one", "delete b/two"}, w.requests())

	w.server.restart()
	w.sessions.wakeUp()
	w.await("a/one")
}

// A catalog that an earlier process sent is kept while it is loaded, unless the CatalogSource was recreated.
func TestKeepsCatalogsThatAreBeingLoaded(t *testing.T) {
	w := given(t)
	kept, other := w.source("a", "kept", "u1"), w.source("a", "other", "u2")
	w.Catalogs.Delete(kept)
	w.Catalogs.Delete(other)
	w.server.has[kept], w.server.has[other] = Known{Digest: "x", UID: "u1"}, Known{Digest: "x", UID: "old"}
	w.start()
	w.available()
	w.await("a/kept")
	require.NoError(t, w.reconcile(kept))
	w.await("a/kept")

	t.Log("the content turns out to be malformed")
	w.Catalogs.SetUnavailable(kept)
	require.NoError(t, w.reconcile(kept))
	got, _ := w.server.state()
	require.Empty(t, got)
}

func TestRetriesOnlyWhatCanSucceed(t *testing.T) {
	w := given(t)
	key := w.source("a", "one", "u1")
	w.server.err = errors.New("connection refused")
	w.start()
	w.available()
	require.Eventually(t, func() bool { return len(w.requests()) > 0 }, time.Minute, time.Millisecond)
	w.woken.Wait()
	require.ErrorContains(t, w.reconcile(key), "connection refused")
	w.server.mu.Lock()
	w.server.err = apierrors.NewRequestEntityTooLargeError("no room")
	w.server.mu.Unlock()
	require.NoError(t, w.reconcile(key))
	n := len(w.requests())
	require.NoError(t, w.reconcile(key))
	require.Len(t, w.requests(), n, "the catalog is not sent again until it changes")
}

// A tenant can change the labels of a CatalogSource at any time, and each version is sent completely.
func TestLimitsHowOftenACatalogOfATenantIsSent(t *testing.T) {
	w := given(t)
	w.interval = time.Hour
	tenant, global := w.source("a", "one", "u1"), w.source("global", "two", "u2")
	w.start()
	w.available()
	w.await("a/one", "global/two")
	w.sent()
	w.publish(tenant, "2")
	result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: tenant})
	require.NoError(t, err)
	require.Greater(t, result.RequeueAfter, time.Minute)
	w.publish(global, "2")
	require.NoError(t, w.reconcile(global))
	require.Equal(t, []string{"put global/two"}, w.sent())

	w.server.restart()
	w.sessions.wakeUp()
	w.await("a/one", "global/two")
	require.Contains(t, w.sent(), "put a/one", "a new server has nothing")
}

// displays is a registry that is slow until it has a text.
type displays struct{ text atomic.Pointer[string] }

func (*displays) PackageDisplay(context.Context, string) ([]byte, error) { return nil, nil }

func (d *displays) BundleDisplay(context.Context, string, string, string) ([]byte, error) {
	if text := d.text.Load(); text != nil {
		return []byte(*text), nil
	}
	return nil, context.DeadlineExceeded
}

// A catalog whose descriptions could not be read in time was never sent again.
func TestSendsMissingDescriptionsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := given(t)
		read := &displays{}
		key := w.source("a", "one", "u1")
		publish := func(digest string) {
			entries := map[string]catalog.Entry{"a.v1": {Name: "a.v1"}}
			w.Catalogs.Put(&catalog.Snapshot{Key: key, Digest: digest, Displays: read, Packages: map[string]*catalog.Package{"a": {
				Name: "a", DefaultChannel: "stable", Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: entries}},
				Bundles: map[string]*catalog.Bundle{"a.v1": {Name: "a.v1", Version: "1.0.0"}},
			}}})
		}
		publish("1")
		w.start()
		w.available()
		w.await("a/one")
		w.sent()
		next := func() time.Duration {
			result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			require.NoError(t, err)
			return result.RequeueAfter
		}
		wait := next()
		require.InDelta(t, firstAgain, wait, float64(time.Second))
		require.Empty(t, w.sent(), "nothing is sent before that")
		for range 10 {
			time.Sleep(wait)
			longer := next()
			require.Equal(t, []string{"put a/one"}, w.sent())
			require.GreaterOrEqual(t, longer, min(2*wait, lastAgain))
			wait = longer
		}
		require.Equal(t, lastAgain, wait)
		publish("2")
		require.Equal(t, firstAgain, next(), "another version has its own attempts")
		text := `{"description":"# etcd"}`
		read.text.Store(&text)
		time.Sleep(firstAgain)
		w.sent()
		require.Zero(t, next())
		require.Equal(t, []string{"put a/one"}, w.sent())
		time.Sleep(24 * time.Hour)
		require.Zero(t, next())
		require.Empty(t, w.sent(), "the catalog is complete")
	})
}

// Waits for registries of other namespaces shortened the time for reading descriptions.
func TestWaitsForOthersDoNotShortenDescriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := given(t)
		all := &turns.Turns{Slots: 1, Share: 1}
		other, _, err := all.Join(t.Context(), "other")
		require.NoError(t, err)
		time.AfterFunc(10*time.Second, other.Leave)
		reader := &late{turns: all}
		snap := &catalog.Snapshot{Displays: reader, Packages: map[string]*catalog.Package{}}
		for i := range 2 {
			name := fmt.Sprintf("p%d", i)
			snap.Packages[name] = &catalog.Package{
				Name: name, DefaultChannel: "stable", Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: map[string]catalog.Entry{"a.v1": {Name: "a.v1"}}}},
				Bundles: map[string]*catalog.Bundle{"a.v1": {Name: "a.v1", Version: "1.0.0"}},
			}
		}
		got, err := w.put(t.Context(), types.NamespacedName{Namespace: "a", Name: "one"}, packages.HeaderOf(packages.Source{}, snap), snap)
		require.NoError(t, err)
		require.False(t, got.isIncomplete)
		require.Equal(t, 2, reader.calls)
	})
}

// late is a registry whose calls take turns, and take 14 seconds each.
type late struct {
	displays
	turns *turns.Turns
	calls int
}

func (l *late) BundleDisplay(ctx context.Context, _, _, _ string) ([]byte, error) {
	turn, ctx, err := l.turns.Join(ctx, "a")
	if err != nil {
		return nil, err
	}
	defer turn.Leave()
	select {
	case <-time.After(14 * time.Second):
		l.calls++
		return []byte("{}"), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A catalog for which package-server has no room is sent again when another catalog is removed or gets smaller, and only if
// the same limits apply to both.
func TestSendsARefusedCatalogAgainWhenThereIsRoom(t *testing.T) {
	w := given(t)
	large, small, other := w.source("a", "large", "u1"), w.source("a", "small", "u2"), w.source("global", "other", "u3")
	many := map[string]*catalog.Package{}
	for n := range 50 {
		name := fmt.Sprint("p", n)
		many[name] = &catalog.Package{Name: name}
	}
	publish := func(key types.NamespacedName, digest string, packages map[string]*catalog.Package) {
		w.Catalogs.Put(&catalog.Snapshot{Key: key, Digest: digest, Packages: packages})
	}
	publish(small, "many", many)
	publish(other, "many", many)
	noted := new([]types.NamespacedName)
	w.WatchRefusals(func(key types.NamespacedName) { *noted = append(*noted, key) })
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	require.NoError(t, w.waker.Start(t.Context(), queue))
	w.server.full = map[types.NamespacedName]bool{large: true}
	w.start()
	w.available()
	w.await("a/small", "global/other")
	require.Contains(t, w.sent(), "put a/large")
	require.Equal(t, "no room", w.Refusal(large))
	require.Empty(t, w.Refusal(small))
	require.Equal(t, []types.NamespacedName{large}, *noted)

	t.Log("a catalog that is subject to other limits, or does not shrink, frees no room")
	w.Catalogs.SetUnavailable(other)
	require.NoError(t, w.reconcile(other))
	publish(small, "as many", many)
	require.NoError(t, w.reconcile(small))
	require.NoError(t, w.reconcile(large))
	require.Equal(t, []string{"delete global/other", "put a/small"}, w.sent())
	require.Zero(t, queue.Len())

	for _, frees := range []func(){
		func() { w.publish(small, "fewer") },
		func() { w.Catalogs.SetUnavailable(small) },
	} {
		frees()
		require.NoError(t, w.reconcile(small))
		w.sent()
		request, _ := queue.Get()
		require.Equal(t, large, request.NamespacedName)
		queue.Done(request)
		require.NoError(t, w.reconcile(large))
		require.Equal(t, []string{"put a/large"}, w.sent(), "the catalog is still refused, and sent only once")
		require.NoError(t, w.reconcile(large))
		require.Empty(t, w.sent())
	}
	w.server.mu.Lock()
	w.server.full = nil
	w.server.mu.Unlock()
	w.publish(small, "again")
	require.NoError(t, w.reconcile(small))
	w.Catalogs.SetUnavailable(small)
	require.NoError(t, w.reconcile(small))
	require.Equal(t, "no room", w.Refusal(large), "until it is sent again")
	require.NoError(t, w.reconcile(large))
	w.await("a/large")
	require.Empty(t, w.Refusal(large))
	require.Equal(t, []types.NamespacedName{large, large}, *noted)
}

// Users must not read about refusals of a package-server that has stopped, and a catalog without content is not refused.
func TestForgetsRefusals(t *testing.T) {
	w := given(t)
	key := w.source("a", "one", "u1")
	var mu sync.Mutex
	n := 0
	w.WatchRefusals(func(of types.NamespacedName) {
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, key, of)
		n++
	})
	w.server.err = apierrors.NewBadRequest("duplicate package")
	w.start()
	w.available()
	noted := func(refusal string, times int) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(c, times, n)
			assert.Equal(c, refusal, w.Refusal(key))
		}, time.Minute, time.Millisecond)
	}
	noted("duplicate package", 1)
	w.woken.Wait()
	w.Catalogs.SetUnavailable(key)
	require.NoError(t, w.reconcile(key))
	noted("", 2)
	w.publish(key, "2")
	require.NoError(t, w.reconcile(key))
	noted("duplicate package", 3)

	a := &apiregistrationv1.APIService{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: apiService}, a))
	require.NoError(t, w.client.Delete(t.Context(), a))
	w.server.restart()
	noted("", 4)
}

// A refused catalog must not be sent again because of a change that does not free room for it.
func TestCountsOnlyFreedRoom(t *testing.T) {
	old, a, b := types.NamespacedName{Namespace: "a", Name: "old"}, types.NamespacedName{Namespace: "a", Name: "a"}, types.NamespacedName{Namespace: "b", Name: "b"}
	global := types.NamespacedName{Namespace: "global", Name: "g"}
	s := newSession(map[types.NamespacedName]Known{old: {Digest: "x"}}, func(key types.NamespacedName) bool { return key == global })
	begun := s.frees(b)
	at := func(resized types.NamespacedName, sizes ...int64) types.NamespacedName {
		for _, size := range sizes {
			s.resize(resized, size)
		}
		next, _ := s.next(resized)
		return next
	}
	none := types.NamespacedName{}
	for name, next := range map[string]func() types.NamespacedName{
		"the size was unknown":        func() types.NamespacedName { return at(old, 5) },
		"a global catalog shrank":     func() types.NamespacedName { return at(global, 5, 0) },
		"stored, grown and unchanged": func() types.NamespacedName { return at(a, 5, 6, 6) },
	} {
		s.refuse(b, begun)
		require.Equal(t, none, next(), name)
		require.Equal(t, begun, s.frees(b), name)
	}
	t.Log("the removal of a catalog that was only refused frees nothing")
	refused := types.NamespacedName{Namespace: "c", Name: "refused"}
	s.refuse(refused, begun)
	require.Equal(t, none, at(refused, 0))

	require.Equal(t, b, at(a, 4))
	s.refuse(b, begun)
	next, _ := s.next(b)
	require.Equal(t, b, next, "there may be room now")
	s.refuse(b, s.frees(b))
	_, ok := s.next(b)
	require.False(t, ok)
	require.Equal(t, b, at(old, 0))

	t.Log("a catalog of an earlier process that is removed frees room even if its size is unknown")
	s = newSession(map[types.NamespacedName]Known{old: {Digest: "x"}}, func(types.NamespacedName) bool { return false })
	s.refuse(b, 0)
	require.Equal(t, b, at(old, 0))
}

// A refused catalog of a tenant waits for a minute even if room is freed while the catalog is being sent, because a tenant can
// cause that.
func TestLimitsHowOftenARefusedCatalogIsSent(t *testing.T) {
	w := given(t)
	large, small := w.source("a", "large", "u1"), types.NamespacedName{Namespace: "b", Name: "small"}
	w.interval = tenantInterval
	w.start()
	w.available()
	w.await("a/large")
	s := w.sessions.current()
	s.resize(small, 5)
	w.earliest.Delete(large)
	w.server.mu.Lock()
	w.server.full = map[types.NamespacedName]bool{large: true}
	w.server.meanwhile = func() {
		s.resize(small, 4)
		s.next(small) // nothing waits yet
	}
	w.server.mu.Unlock()
	w.publish(large, "2")
	w.sent()
	require.NoError(t, w.reconcile(large))
	require.Equal(t, []string{"put a/large"}, w.sent())
	result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: large})
	require.NoError(t, err)
	require.Greater(t, result.RequeueAfter, tenantInterval, "the refused catalog is sent again later")
	require.Empty(t, w.sent())
}

// work reconciles what is in the queue until it is empty.
func (w *world) work(queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	w.Helper()
	for range 10_000 {
		if queue.Len() == 0 {
			return
		}
		request, _ := queue.Get()
		require.NoError(w, w.reconcile(request.NamespacedName))
		queue.Done(request)
	}
	require.Fail(w, "catalogs are sent forever")
}

// refused is a world in which package-server has no room for catalogs of tenants except "a/small".
func refused(t *testing.T, namespaces map[string]int) (w *world, small types.NamespacedName, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	t.Helper()
	w = given(t)
	queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	require.NoError(t, w.waker.Start(t.Context(), queue))
	small = w.source("a", "small", "u")
	w.server.full = map[types.NamespacedName]bool{}
	for namespace, n := range namespaces {
		for i := range n {
			w.server.full[w.source(namespace, fmt.Sprint("c", i), fmt.Sprint(namespace, i))] = true
		}
	}
	w.start()
	w.available()
	w.await("a/small")
	w.woken.Wait()
	w.sent()
	return w, small, queue
}

// One catalog that is removed can leave room for all that were refused. Nothing else would send them again.
func TestSendsAllRefusedCatalogsAgainThatFit(t *testing.T) {
	w, small, queue := refused(t, map[string]int{"b": 20, "c": 1})
	w.server.full = nil
	w.Catalogs.SetUnavailable(small)
	require.NoError(t, w.reconcile(small))
	w.work(queue)
	got, _ := w.server.state()
	require.Len(t, got, 21)
	require.Len(t, w.sent(), 1+21)
}

func TestRefusedCatalogsAreSentInTurns(t *testing.T) {
	r := &retries{}
	for i := range 10 {
		r.add(types.NamespacedName{Namespace: "evil", Name: fmt.Sprint(i)}, 0)
	}
	for i := range 2 {
		r.add(types.NamespacedName{Namespace: "victim", Name: fmt.Sprint(i)}, 0)
	}
	round := func() (sent []string) {
		key := types.NamespacedName{Namespace: "other", Name: "smaller"}
		r.stored(key)
		r.free()
		for ok := true; ok; {
			if key, ok = r.next(key); ok {
				sent = append(sent, key.String())
			}
			if key.Namespace == "victim" {
				r.stored(key)
			} else if ok {
				r.add(key, r.freed)
			}
		}
		return sent
	}
	require.Equal(t, []string{"evil/0", "victim/0", "evil/1", "victim/1", "evil/2", "evil/3"}, round())
	require.Equal(t, []string{"evil/4", "evil/5", "evil/6", "evil/7"}, round())
	require.Equal(t, []string{"evil/8", "evil/9", "evil/0", "evil/1"}, round())
	require.Equal(t, []string{"evil"}, r.order)
}

// A namespace with many refused catalogs must not take the turns of others.
func TestNamespacesTakeTurnsWhenThereIsRoom(t *testing.T) {
	w, small, queue := refused(t, map[string]int{"evil": 250, "victim": 1})
	delete(w.server.full, types.NamespacedName{Namespace: "victim", Name: "c0"})
	w.Catalogs.SetUnavailable(small)
	require.NoError(t, w.reconcile(small))
	w.work(queue)
	w.await("victim/c0")
	require.LessOrEqual(t, len(w.sent()), 1+1+4, "few catalogs of a namespace are sent in vain")

	t.Log("the other catalogs of the namespace are sent when there is room again")
	seen := map[string]bool{}
	victim := types.NamespacedName{Namespace: "victim", Name: "c0"}
	for range 250 {
		w.Catalogs.SetUnavailable(victim)
		require.NoError(t, w.reconcile(victim))
		w.work(queue)
		w.publish(victim, "1")
		require.NoError(t, w.reconcile(victim))
		for _, request := range w.sent() {
			seen[request] = true
		}
	}
	require.Len(t, seen, 2+250)
}
