package scopedcache_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

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
	w.eventually(func(ct *assert.CollectT) { assert.ElementsMatch(ct, []string{"add a", "add b"}, peek(e)) })
	e.take()
	w.claim(owner("namespace"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.watches(x)
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add c"}, peek(e)) })
	for _, s := range w.Status(owner("objects")) {
		require.Equal(t, scopedcache.Namespace(x), s.ServedBy)
	}
}

func peek(e *events) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.got...)
}

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
	w.eventually(func(ct *assert.CollectT) { assert.Len(ct, peek(e), 2) })

	held := make(chan struct{})
	w.log.intercept(func(r *http.Request) (*http.Response, error) {
		if describe(r) == "watch secrets "+x+"/a" {
			<-held
		}
		return nil, nil
	})
	w.Release(owner("namespace"))
	for range 10 { // the object is readable throughout
		_, err := w.read(x, "a")
		require.NoError(t, err)
		_, err = w.read(x, "b")
		requireNotCovered(t, err)
	}
	w.watches(x)
	close(held)
	w.watches(x + "/a")
	_, err := w.read(x, "a")
	require.NoError(t, err)
	require.Len(t, peek(e), 2, "nothing was deleted or added")
}

// While one watch takes over from another, an object changes, is deleted, and is made again.
func TestT25ChangesDuringAHandover(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"wider", "narrower"} {
		for _, lag := range []string{"new", "old"} {
			t.Run(kind+" while the "+lag+" one lags", func(t *testing.T) {
				t.Parallel()
				w := given(t)
				x := w.namespace()
				w.grant(x, all)
				w.secret(x, "a")
				e := w.handle(&corev1.Secret{})
				object, namespace := secrets(scopedcache.Object(x, "a")), secrets(scopedcache.Namespace(x))
				if kind == "wider" {
					w.claim(owner("o"), scopedcache.Live, object)
				} else {
					w.claim(owner("o"), scopedcache.Live, object)
					w.claim(owner("n"), scopedcache.Live, namespace)
					w.watches(x)
				}
				w.eventually(func(ct *assert.CollectT) { assert.NotEmpty(ct, peek(e)) })
				change := func() {
					s := &corev1.Secret{}
					require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, s))
					s.Data["key"] = []byte("changed")
					require.NoError(t, w.admin.Update(t.Context(), s))
					require.NoError(t, w.admin.Delete(t.Context(), s))
					w.secret(x, "a")
				}
				if lag == "old" {
					change()
				}
				if kind == "wider" {
					w.Ensure(t.Context(), owner("n"), namespace)
				} else {
					w.Release(owner("n"))
				}
				if lag == "new" {
					change()
				}
				want := &corev1.Secret{}
				require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, want))
				w.eventually(func(ct *assert.CollectT) {
					got, err := w.read(x, "a")
					assert.NoError(ct, err)
					assert.Equal(ct, want.UID, got.UID)
					assert.Equal(ct, want.ResourceVersion, got.ResourceVersion)
				})
				if kind == "wider" {
					w.watches(x)
				} else {
					w.watches(x + "/a")
				}
				// Adds and deletions alternate, and the last is an add.
				exists := false
				w.eventually(func(ct *assert.CollectT) { assert.Contains(ct, []string{"add a", "update a"}, last(peek(e))) })
				for _, event := range peek(e) {
					switch event {
					case "add a":
						require.False(t, exists, "%v", peek(e))
						exists = true
					case "update a":
						require.True(t, exists, "%v", peek(e))
					case "delete a":
						require.True(t, exists, "%v", peek(e))
						exists = false
					}
				}
				require.True(t, exists)
			})
		}
	}
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
	w := given(t, func(o *scopedcache.Options) { o.CoalesceObjects = 32 })
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
	w.Release(o)
	w.watches()
}
