package scopedcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

func TestT16TheLastReleaseEndsTheWatch(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	e := w.handle(&corev1.Secret{})
	a, b := owner("a"), owner("b")
	w.claim(a, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.claim(b, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add a"}, peek(e)) })
	w.Release(a)
	w.watches(x)
	_, err := w.read(x, "a")
	require.NoError(t, err)
	w.Release(b)
	w.Release(b)
	w.watches()
	_, err = w.read(x, "a")
	requireNotCovered(t, err)
	require.Equal(t, []string{"add a"}, e.take(), "no object was deleted")
	w.claim(a, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.eventually(func(ct *assert.CollectT) {
		assert.Equal(ct, []string{"add a"}, e.take(), "the object was dropped before")
	})
}

func TestT17ASessionReplacesClaims(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	o := owner("o")
	object := func(name string) scopedcache.Claim { return secrets(scopedcache.Object(x, name)) }
	first := w.Begin(o)
	first.Ensure(t.Context(), object("a"), object("b"))
	first.Commit()
	w.watches(x+"/a", x+"/b")
	w.log.take("secrets")

	second := w.Begin(o)
	second.Ensure(t.Context(), object("b"))
	require.Error(t, w.Get(second.Context(t.Context()), client.ObjectKey{Namespace: x, Name: "c"}, &corev1.Secret{}), "the object does not exist")
	second.Commit()
	second.Commit()
	w.watches(x+"/b", x+"/c")
	require.Equal(t, []string{"watch secrets " + x + "/c"}, w.log.take("secrets"), "the watch of b continues")

	third := w.Begin(o)
	third.Ensure(t.Context(), object("d"))
	third.Abort()
	w.watches(x+"/b", x+"/c", x+"/d")
}

func TestT18ARecreatedOwnerIsADifferentOwner(t *testing.T) {
	t.Parallel()
	w := given(t, primary(&corev1.ConfigMap{}))
	x := w.namespace()
	w.grant(x, all)
	w.grantOn("", "configmaps", "", all)
	w.handle(&corev1.ConfigMap{})
	own := func() scopedcache.OwnerRef {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "owner"}}
		require.NoError(t, w.admin.Create(t.Context(), cm))
		ref, err := scopedcache.OwnerOf(cm, w.admin.Scheme())
		require.NoError(t, err)
		return ref
	}
	old := own()
	w.claim(old, scopedcache.Live, secrets(scopedcache.Object(x, "a")))
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "owner"}}))
	again := own()
	w.claim(again, scopedcache.Live, secrets(scopedcache.Object(x, "b")))
	w.watches(x + "/b")
	require.Empty(t, w.Status(old))
	require.Len(t, w.Status(again), 1)

	// A reconcile that started before the deletion tries to claim an object.
	late := w.Ensure(t.Context(), old, secrets(scopedcache.Object(x, "a")))
	require.Equal(t, scopedcache.Invalid, late[0].State)
	require.Contains(t, late[0].Reason, "was deleted")
	require.Empty(t, w.Status(old))
	w.watches(x + "/b")
	_, err := scopedcache.OwnerOf(&corev1.ConfigMap{}, w.admin.Scheme())
	require.ErrorContains(t, err, "no UID")
}

func primary(kinds ...client.Object) setup {
	return func(o *scopedcache.Options) { o.Primary = append(o.Primary, kinds...) }
}

func TestT19AMissedDeletionReleasesClaims(t *testing.T) {
	t.Parallel()
	w := given(t, primary(&corev1.ConfigMap{}))
	x := w.namespace()
	w.grant(x, all)
	w.grantOn("", "configmaps", "", all)
	w.handle(&corev1.ConfigMap{})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "owner"}}
	require.NoError(t, w.admin.Create(t.Context(), cm))
	ref, err := scopedcache.OwnerOf(cm, w.admin.Scheme())
	require.NoError(t, err)
	w.eventually(func(ct *assert.CollectT) { assert.NoError(ct, w.Get(t.Context(), ref.Key, &corev1.ConfigMap{})) })
	w.claim(ref, scopedcache.Live, secrets(scopedcache.Object(x, "a")))

	// The connection is lost while the owner is deleted.
	var cut sync.Once
	cutDone := make(chan struct{})
	w.log.intercept(func(r *http.Request) (*http.Response, error) {
		if describe(r) != "watch configmaps " {
			return nil, nil
		}
		cut.Do(func() { close(cutDone) })
		return nil, fmt.Errorf("cut off")
	})
	w.Recheck("")
	<-cutDone
	require.NoError(t, w.admin.Delete(t.Context(), cm))
	w.log.intercept(nil)
	w.eventually(func(ct *assert.CollectT) { assert.Empty(ct, w.Status(ref)) })
	w.watches()
}

// An owner is deleted while the permission is missing. Whether it exists is unknown until the permission is granted
// again.
func TestT19ADeletionWhileDeniedReleasesClaims(t *testing.T) {
	t.Parallel()
	w := given(t, primary(&corev1.ConfigMap{}), rechecking)
	x := w.namespace()
	w.grant(x, all)
	revoke := w.grantOn("", "configmaps", "", all)
	w.handle(&corev1.ConfigMap{})
	create := func(name string) (*corev1.ConfigMap, scopedcache.OwnerRef) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: name}}
		require.NoError(t, w.admin.Create(t.Context(), cm))
		ref, err := scopedcache.OwnerOf(cm, w.admin.Scheme())
		require.NoError(t, err)
		w.eventually(func(ct *assert.CollectT) { assert.NoError(ct, w.Get(t.Context(), ref.Key, &corev1.ConfigMap{})) })
		w.claim(ref, scopedcache.Live, secrets(scopedcache.Object(x, name)))
		return cm, ref
	}
	deleted, a := create("a")
	replaced, b := create("b")
	_, c := create("c")
	revoke()
	w.eventually(func(ct *assert.CollectT) {
		assert.True(ct, apierrors.IsForbidden(w.Get(t.Context(), a.Key, &corev1.ConfigMap{})))
	})
	require.NoError(t, w.admin.Delete(t.Context(), deleted))
	require.NoError(t, w.admin.Delete(t.Context(), replaced))
	require.NoError(t, w.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "b"}}))
	w.grantOn("", "configmaps", "", all)
	w.eventually(func(ct *assert.CollectT) {
		assert.Empty(ct, w.Status(a))
		assert.Empty(ct, w.Status(b))
	})
	w.watches(x + "/c")
	require.Len(t, w.Status(c), 1)
}

func TestT20AReleaseWakesReads(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.ReadTimeout = 10 * patience })
	x := w.namespace()
	w.grant(x, all)
	held := make(chan struct{})
	w.log.intercept(func(r *http.Request) (*http.Response, error) {
		if describe(r) == "watch secrets "+x {
			select {
			case <-held:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return nil, nil
	})
	defer close(held)
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace(x)))
	failed := make(chan error, 1)
	go func() {
		_, err := w.read(x, "a")
		failed <- err
	}()
	w.eventually(func(ct *assert.CollectT) { assert.Contains(ct, w.log.take("secrets"), "watch secrets "+x) })
	w.Release(owner("o"))
	requireNotCovered(t, <-failed)
}

// This test is not parallel, because it counts goroutines.
func TestT21ManyOwnersAtOnce(t *testing.T) {
	running := goroutines(t)
	w := prepare(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	require.True(t, w.WaitForCacheSync(ctx))
	const idle = 2 // Start, and the goroutine that notifies owners
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, idle, running()) })
	x, y := w.namespace(), w.namespace()
	w.grant("", all)
	scopes := []scopedcache.Scope{scopedcache.Cluster(), scopedcache.Namespace(x), scopedcache.Namespace(y)}
	for i := range 5 {
		scopes = append(scopes, scopedcache.Object(x, fmt.Sprint(i)), scopedcache.Object(y, fmt.Sprint(i)))
	}
	var wait sync.WaitGroup
	for n := range 16 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			o := owner(fmt.Sprint(n))
			for range 625 {
				c := secrets(scopes[random.IntN(len(scopes))])
				switch random.IntN(4) {
				case 0:
					w.Release(o)
				case 1:
					s := w.Begin(o)
					s.Ensure(t.Context(), c)
					s.Commit()
				default:
					w.Ensure(t.Context(), o, c)
				}
			}
			w.Release(o)
		})
	}
	wait.Wait()
	w.watches()
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, idle, running(), "no state of the claims remains") })
	w.claim(owner("last"), scopedcache.Live, secrets(scopedcache.Object(x, "0")))
	w.watches(x + "/0")
	cancel()
	require.NoError(t, <-ended)
	w.eventually(func(ct *assert.CollectT) { assert.Zero(ct, running()) })
}

func TestT22AQuicklyRepeatedClaimNeedsNoRequest(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.Linger = patience })
	x := w.namespace()
	w.grant(x, all)
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.log.take("secrets")
	w.Release(owner("o"))
	_, err := w.names(client.InNamespace(x))
	requireNotCovered(t, err)
	w.claim(owner("other"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	require.Empty(t, w.log.take("secrets"))
}

func TestAnAbortedSessionCannotCommit(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	o := owner("o")
	w.Ensure(t.Context(), o, secrets(scopedcache.Namespace("x")))
	first := w.Begin(o)
	second := w.Begin(o) // aborts the first session
	first.Commit()
	require.Len(t, w.Status(o), 1, "the claim is kept")
	first.Abort()
	second.Ensure(t.Context(), secrets(scopedcache.Namespace("y")))
	second.Commit()
	require.Len(t, w.Status(o), 1)
	require.Equal(t, scopedcache.Namespace("y"), w.Status(o)[0].Claim.Scope, "the second session was not aborted")
}

// ReleaseAndWait waits for watches that linger. It also returns when another owner claims them or the kinds are
// removed.
func TestReleaseAndWaitReturnsOnceTheReasonToWaitEnds(t *testing.T) {
	t.Parallel()
	const owners = 8 // each call waits for the watches in another order
	claims := func(i int) []scopedcache.Claim {
		scope := scopedcache.Namespace(fmt.Sprint("x", i))
		return []scopedcache.Claim{secrets(scope), {Kind: &corev1.ConfigMap{}, Scope: scope}}
	}
	for name, end := range map[string]func(*world){
		"another owner needs the watches": func(w *world) {
			for i := range owners {
				w.Ensure(t.Context(), owner("other"), claims(i)...)
			}
		},
		"the kinds are removed": func(w *world) {
			require.NoError(t, w.RemoveInformer(t.Context(), &corev1.Secret{}))
			require.NoError(t, w.RemoveInformer(t.Context(), &corev1.ConfigMap{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t, func(o *scopedcache.Options) { o.Linger = 10 * patience })
			w.grant("", all)
			w.grantOn("", "configmaps", "", all)
			ended := make(chan error, owners)
			for i := range owners {
				o := owner(fmt.Sprint("o", i))
				w.claim(o, scopedcache.Live, claims(i)...)
				go func() { ended <- w.ReleaseAndWait(t.Context(), o) }()
				w.eventually(func(ct *assert.CollectT) { assert.Empty(ct, w.Status(o)) })
			}
			<-time.After(settled)
			require.Empty(t, ended, "they wait")
			end(w)
			for range owners {
				select {
				case err := <-ended:
					require.NoError(t, err)
				case <-time.After(patience):
					require.Fail(t, "ReleaseAndWait did not return")
				}
			}
		})
	}
}

func TestReleaseAndWait(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.Linger = 200 * time.Millisecond })
	x := w.namespace()
	w.grant(x, all)
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.claim(owner("p"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	require.NoError(t, w.ReleaseAndWait(ctx, owner("p")), "another owner needs the watch")
	require.NoError(t, w.ReleaseAndWait(t.Context(), owner("o")))
	w.watches()
}
