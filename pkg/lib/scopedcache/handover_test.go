package scopedcache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// The list of the wider watch is older than events that the narrower watches have already reported.
func TestT23AWiderWatchTakesOver(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	for _, name := range []string{"a", "b", "c"} {
		w.secret(x, name)
	}
	e := w.handle(&corev1.Secret{})
	w.claim(owner("objects"), scopedcache.Live, secrets(scopedcache.Object(x, "a")), secrets(scopedcache.Object(x, "b")))
	e.become(w, "add a", "add b")
	e.take()
	held := w.hold(x)
	w.Ensure(t.Context(), owner("namespace"), secrets(scopedcache.Namespace(x)))
	namespace := w.listed(held)
	w.change(x, "a")
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "b"}}))
	e.become(w, "update a", "delete b")
	namespace.set(false)
	w.watches(x)
	for _, s := range w.Status(owner("objects")) {
		require.Equal(t, scopedcache.Namespace(x), s.ServedBy)
	}
	w.secret(x, "d")
	got := e.until(w, "add d")
	require.ElementsMatch(t, []string{"update a", "delete b"}, got[:2], "of two watches")
	require.Equal(t, []string{"add c", "add d"}, got[2:])
	w.change(x, "a")
	require.Equal(t, "update a", last(e.until(w, "update a")))
}

// The list of the narrower watch is older than events that the wider watch has already reported.
func TestT24ANarrowerWatchTakesOver(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	w.secret(x, "b")
	e := w.handle(&corev1.Secret{})
	w.claim(owner("namespace"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.claim(owner("object"), scopedcache.Live, secrets(scopedcache.Object(x, "a")))
	w.watches(x)
	e.become(w, "add a", "add b")
	e.take()

	held := w.hold(x + "/a")
	w.Release(owner("namespace"))
	object := w.listed(held)
	w.change(x, "a")
	e.become(w, "update a")
	for range 10 { // the object can be read at any time
		_, err := w.read(x, "a")
		require.NoError(t, err)
		_, err = w.read(x, "b")
		requireNotCovered(t, err)
	}
	w.watches(x, x+"/a")
	object.set(false)
	w.watches(x + "/a")
	got, err := w.read(x, "a")
	require.NoError(t, err)
	require.Equal(t, "a changed", string(got.Data["key"]))
	informer, err := w.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	require.Equal(t, []string{x + "/a"}, informer.(toolscache.SharedIndexInformer).GetStore().ListKeys(), "the other object was dropped")
	w.secret(x, "c")
	require.NoError(t, w.admin.Delete(t.Context(), got))
	require.Equal(t, []string{"update a", "delete a"}, e.until(w, "delete a"))
}

// change changes a Secret.
func (w *world) change(namespace, name string) {
	w.Helper()
	s := &corev1.Secret{}
	require.NoError(w, w.admin.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s))
	s.Data["key"] = []byte(string(s.Data["key"]) + " changed")
	require.NoError(w, w.admin.Update(w.Context(), s))
}

// replace changes a Secret, deletes it and recreates it.
func (w *world) replace(namespace, name string) {
	w.Helper()
	w.change(namespace, name)
	require.NoError(w, w.admin.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	w.secret(namespace, name)
}

// become waits until exactly these events have been received, in any order.
func (e *events) become(w *world, want ...string) {
	w.Helper()
	w.eventually(func(ct *assert.CollectT) { assert.ElementsMatch(ct, want, peek(e)) })
}

// until waits until the given event is the last one received, and returns all events.
func (e *events) until(w *world, event string) []string {
	w.Helper()
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, event, last(peek(e))) })
	return peek(e)
}

func peek(e *events) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.got...)
}

// While one watch takes over from another, an object is changed, deleted and recreated. Handlers receive no event
// twice, regardless of which watch lags behind.
func TestT25ChangesDuringAHandover(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"wider", "narrower"} {
		t.Run("the new watch is "+kind+" and behind", func(t *testing.T) {
			t.Parallel()
			h := givenHandover(t, kind)
			h.claim(owner("old"), scopedcache.Live, secrets(h.before))
			h.events.become(h.world, "add a")
			held := h.hold(h.watch[h.after])
			h.begin()
			successor := h.listed(held)
			h.replace(h.x, "a")
			h.events.become(h.world, "add a", "update a", "delete a", "add a")
			successor.set(false)
			h.watches(h.watch[h.after])
			h.change(h.x, "a")
			h.events.become(h.world, "add a", "update a", "delete a", "add a", "update a")
			require.Equal(t, []string{"add a", "update a", "delete a", "add a", "update a"}, peek(h.events))
		})
		t.Run("the new watch is "+kind+" and ahead", func(t *testing.T) {
			t.Parallel()
			h := givenHandover(t, kind)
			held := h.hold(h.watch[h.before])
			h.Ensure(t.Context(), owner("old"), secrets(h.before))
			predecessor := h.listed(held)
			predecessor.set(false)
			h.events.become(h.world, "add a")
			predecessor.set(true)
			h.replace(h.x, "a")
			h.begin()
			h.watches(h.watch[h.after])
			h.change(h.x, "a")
			h.events.become(h.world, "add a", "delete a", "add a", "update a")
			require.Equal(t, []string{"add a", "delete a", "add a", "update a"}, peek(h.events))
		})
	}
}

// handover describes how the watch of one scope takes over the Secret "a" from the watch of another.
type handover struct {
	*world
	x             string
	events        *events
	before, after scopedcache.Scope
	watch         map[scopedcache.Scope]string
	begin         func()
}

func givenHandover(t *testing.T, kind string) handover {
	h := handover{world: given(t)}
	h.x = h.namespace()
	h.grant(h.x, all)
	h.secret(h.x, "a")
	h.events = h.handle(&corev1.Secret{})
	object, namespace := scopedcache.Object(h.x, "a"), scopedcache.Namespace(h.x)
	h.watch = map[scopedcache.Scope]string{object: h.x + "/a", namespace: h.x}
	if kind == "wider" {
		h.before, h.after = object, namespace
		h.begin = func() { h.Ensure(t.Context(), owner("new"), secrets(namespace)) }
		return h
	}
	h.before, h.after = namespace, object
	h.begin = func() {
		h.Ensure(t.Context(), owner("new"), secrets(object)) // the watch of the namespace serves the new claim
		h.Release(owner("old"))
	}
	return h
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

func TestT26NamespacesServeWhileTheClusterIsDenied(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y := w.namespace(), w.namespace()
	for _, ns := range []string{x, y} {
		w.grant(ns, all)
		w.secret(ns, "a")
	}
	o := owner("o")
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Cluster()))
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Namespace(y)))
	_, err := w.read(x, "a")
	require.NoError(t, err)
	_, err = w.names()
	var denied *scopedcache.DeniedError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, all, denied.Missing)
	w.watches(x, y)

	w.grant("", all)
	w.becomes(o, scopedcache.Cluster(), scopedcache.Live)
	w.watches("")
	list, err := w.names()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(list), 2)
}

func TestT27ManyObjectsBecomeOneWatch(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) {
		o.CoalesceObjects, o.Retry = 32, scopedcache.Retry{Initial: time.Hour, Max: time.Hour}
	})
	x, y := w.namespace(), w.namespace()
	w.grant(x, all)
	var names []string
	for i := range 33 {
		names = append(names, fmt.Sprint("s", i))
	}
	w.grant(y, all, names...)
	o := owner("o")
	var objects []string
	for _, name := range names {
		w.Ensure(t.Context(), o, secrets(scopedcache.Object(x, name)), secrets(scopedcache.Object(y, name)))
		objects = append(objects, y+"/"+name)
	}
	w.watches(append(objects, x)...)
	w.eventually(func(ct *assert.CollectT) {
		for _, s := range w.Status(o) {
			assert.Equal(ct, scopedcache.Live, s.State)
		}
	})
	_, err := w.names(client.InNamespace(x))
	requireNotCovered(t, err)
	// The watch of y was refused once. Further claims do not cause another attempt.
	count := map[string]int{}
	for _, r := range w.log.take("secrets") {
		count[r]++
	}
	require.Equal(t, 1, count["watch secrets "+y])
	require.Equal(t, 1, count["list secrets "+y], "which permissions are missing")
	require.Equal(t, 1, count["watch secrets "+x])
	for _, object := range objects {
		require.Equal(t, 1, count["watch secrets "+object])
	}
	w.Release(o)
	w.watches()
}

func TestTheSmallestLimitCoalescesTwoObjects(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.CoalesceObjects = 1 })
	x := w.namespace()
	w.grant(x, all)
	w.claim(owner("a"), scopedcache.Live, secrets(scopedcache.Object(x, "a")))
	w.watches(x + "/a")
	w.claim(owner("b"), scopedcache.Live, secrets(scopedcache.Object(x, "b")))
	w.watches(x)
	w.Release(owner("a"))
	w.watches(x + "/b")
	w.Release(owner("b"))
	w.watches()
}
