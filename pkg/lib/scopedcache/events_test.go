package scopedcache

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func configMapAt(name, version string, uid types.UID) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "owners", Name: name, ResourceVersion: version, UID: uid}}
}

// The objects of the primary kind own claims. For some time, the API server refuses to let the cache watch the kind.
func TestOwnersThatWereDeletedWhileDeniedAreReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after    func(t *testing.T, f *feed)
		released bool
	}{
		"not in the next list":         {func(t *testing.T, f *feed) { f.lists(t, "30") }, true},
		"in the next list":             {func(t *testing.T, f *feed) { f.lists(t, "30", configMapAt("o", "10", "o")) }, false},
		"another object with the name": {func(t *testing.T, f *feed) { f.lists(t, "30", configMapAt("o", "25", "another")) }, true},
		"an older list":                {func(t *testing.T, f *feed) { f.lists(t, "5") }, false},
		"deleted after an older list": {func(t *testing.T, f *feed) {
			f.lists(t, "5")
			f.seesDeleted(t, configMapAt("o", "20", "o"))
		}, true},
		"exists after an older list": {func(t *testing.T, f *feed) {
			f.lists(t, "5")
			f.sees(t, configMapAt("o", "10", "o"))
			f.sees(t, configMapAt("o", "20", "o"))
		}, false},
		"deleted later": {func(t *testing.T, f *feed) {
			f.lists(t, "30", configMapAt("o", "10", "o"))
			f.seesDeleted(t, configMapAt("o", "40", "o"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.Ensure(t.Context(), ownerOf("static"), Claim{Kind: &corev1.ConfigMap{}, Scope: Cluster()})
			f.claim("o", Namespace("x"))
			owners := f.configMaps.cluster.feed
			owners.lists(t, "10", configMapAt("o", "10", "o"))
			owners.denied()
			f.events.flush(t.Context())
			require.Len(t, f.Status(ownerOf("o")), 1, "it may still exist")
			c.after(t, owners)
			f.events.flush(t.Context())
			if c.released {
				require.Empty(t, f.Status(ownerOf("o")))
			} else {
				require.Len(t, f.Status(ownerOf("o")), 1)
			}
		})
	}
}

// Objects from aggregated API servers may not have a UID, and the owners of the cache's own claims have none.
func TestADeletionWithoutUIDReleasesNoClaims(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(o *Options) { o.Static = []Claim{{Kind: &corev1.Secret{}, Scope: Namespace("x")}} })
	f.configMaps.objects.put(configMapAt("o", "10", ""), false)
	f.configMaps.objects.remove(configMapAt("o", "20", ""))
	f.events.flush(t.Context())
	require.Len(t, f.Status(builtIn("static")), 1)
	f.Ensure(t.Context(), builtIn("static"), Claim{Kind: &corev1.Secret{}, Scope: Namespace("y")})
	require.Len(t, f.Status(builtIn("static")), 2, "new claims are accepted")
}

// Owners are notified of the state in which a claim settles.
func TestOwnersAreNotifiedOnceOfAChange(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var notified []State
	f.events.subscribe(&subscriber{notify: func(_ OwnerRef, status ClaimStatus) { notified = append(notified, status.State) }})
	feed := f.claim("o", Namespace("x"))
	for range 20 {
		feed.lists(t, "10")
		feed.denied()
	}
	f.events.flush(t.Context())
	f.events.flush(t.Context())
	require.Equal(t, []State{Denied}, notified)
	feed.lists(t, "10")
	feed.denied()
	f.events.flush(t.Context())
	require.Equal(t, []State{Denied}, notified, "as before")
	feed.lists(t, "10")
	f.events.flush(t.Context())
	require.Equal(t, []State{Denied, Live}, notified)
}

// If a permission is repeatedly granted and revoked, the owner is woken only occasionally.
func TestOwnersAreNotifiedOfSettledStates(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var notified atomic.Int32
	f.events.subscribe(&subscriber{notify: func(OwnerRef, ClaimStatus) { notified.Add(1) }})
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		f.events.run(ctx)
	}()
	feed := f.claim("o", Namespace("x"))
	started := time.Now()
	for range 100 {
		feed.lists(t, "10")
		<-time.After(time.Millisecond)
		feed.denied()
		<-time.After(time.Millisecond)
	}
	<-time.After(2 * settleTime)
	cancel()
	<-ended
	require.Positive(t, notified.Load())
	require.LessOrEqual(t, time.Duration(notified.Load()-1)*100*time.Millisecond, time.Since(started))
	require.Equal(t, Denied, f.Status(ownerOf("o"))[0].State)
}

// An object temporarily stops matching the label selector of its kind, so the cache considers it deleted in the
// meantime.
func TestAnOwnerThatReappearsCanClaim(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*fake){
		"after its claims were released":  func(f *fake) { f.events.flush(t.Context()) },
		"before its claims were released": func(*fake) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.Ensure(t.Context(), ownerOf("static"), Claim{Kind: &corev1.ConfigMap{}, Scope: Cluster()})
			owners := f.configMaps.cluster.feed
			owners.lists(t, "10", configMapAt("o", "10", "o"), configMapAt("p", "10", "p"))
			owners.seesDeleted(t, configMapAt("o", "20", "o"))
			owners.seesDeleted(t, configMapAt("p", "21", "p"))
			meanwhile(f)
			owners.sees(t, configMapAt("o", "30", "o"))
			f.claim("o", Namespace("x"))
			f.claim("p", Namespace("x"))
			f.events.flush(t.Context())
			require.Len(t, f.Status(ownerOf("o")), 1)
			require.Empty(t, f.Status(ownerOf("p")), "the owner does not exist again yet")
			owners.seesDeleted(t, configMapAt("o", "40", "o"))
			f.events.flush(t.Context())
			require.Empty(t, f.Status(ownerOf("o")))
			f.claim("o", Namespace("x"))
			require.Empty(t, f.Status(ownerOf("o")), "it was deleted again")
		})
	}
}

// An owner whose claim is Live from the start is not notified of that state.
func TestOwnersAreNotNotifiedOfTheFirstState(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	feed.lists(t, "10")
	f.secrets.unreported()
	require.Equal(t, Live, f.Ensure(t.Context(), ownerOf("p"), Claim{Kind: &corev1.Secret{}, Scope: Object("x", "a")})[0].State)
	require.Empty(t, f.secrets.unreported())
	feed.denied()
	require.Equal(t, Denied, f.Ensure(t.Context(), ownerOf("q"), Claim{Kind: &corev1.Secret{}, Scope: Namespace("x")})[0].State)
	unreported := f.secrets.unreported()
	require.Contains(t, unreported, ownerOf("o"))
	require.NotContains(t, unreported, ownerOf("q"))
	feed.lists(t, "20")
	require.Contains(t, f.secrets.unreported(), ownerOf("q"))
}

// A list decides only about the owners in its own scope.
func TestAListOfANamespaceReleasesNoOwnersElsewhere(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, namespace := range []string{"owners", "x"} {
		f.Ensure(t.Context(), ownerOf("static"), Claim{Kind: &corev1.ConfigMap{}, Scope: Namespace(namespace)})
	}
	f.claim("o", Namespace("x"))
	owners, others := f.configMaps.nodeOf(Namespace("owners"), false).feed, f.configMaps.nodeOf(Namespace("x"), false).feed
	owners.lists(t, "10", configMapAt("o", "10", "o"))
	owners.denied()
	others.lists(t, "30")
	f.events.flush(t.Context())
	require.Len(t, f.Status(ownerOf("o")), 1, "it may still exist")
}
