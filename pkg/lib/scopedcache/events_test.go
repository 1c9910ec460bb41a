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

// The primary kind is refused for a while; its objects own claims.
func TestOwnersThatWereDeletedWhileDeniedAreReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after    func(t *testing.T, f *feed)
		released bool
	}{
		"not in the next list": {func(t *testing.T, f *feed) { f.lists(t, "30") }, true},
		"in the next list":     {func(t *testing.T, f *feed) { f.lists(t, "30", configMapAt("o", "10", "o")) }, false},
		"another of the name":  {func(t *testing.T, f *feed) { f.lists(t, "30", configMapAt("o", "25", "another")) }, true},
		"a list that is older": {func(t *testing.T, f *feed) { f.lists(t, "5") }, false},
		"deleted after a list that is older": {func(t *testing.T, f *feed) {
			f.lists(t, "5")
			f.seesDeleted(t, configMapAt("o", "20", "o"))
		}, true},
		"there after a list that is older": {func(t *testing.T, f *feed) {
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

// Objects from aggregated API servers may lack a UID, and the owners of the cache's own claims have none either.
func TestADeletionWithoutUIDReleasesNoClaims(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(o *Options) { o.Static = []Claim{{Kind: &corev1.Secret{}, Scope: Namespace("x")}} })
	f.configMaps.objects.put(configMapAt("o", "10", ""), false)
	f.configMaps.objects.remove(configMapAt("o", "20", ""))
	f.events.flush(t.Context())
	require.Len(t, f.Status(builtIn("static")), 1)
	f.Ensure(t.Context(), builtIn("static"), Claim{Kind: &corev1.Secret{}, Scope: Namespace("y")})
	require.Len(t, f.Status(builtIn("static")), 2, "nor is a claim refused")
}

// An owner is told of the state that a claim has settled in.
func TestOwnersAreToldOnceOfAChange(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var told []State
	f.events.subscribe(&subscriber{notify: func(_ OwnerRef, status ClaimStatus) { told = append(told, status.State) }})
	feed := f.claim("o", Namespace("x"))
	for range 20 {
		feed.lists(t, "10")
		feed.denied()
	}
	f.events.flush(t.Context())
	f.events.flush(t.Context())
	require.Equal(t, []State{Denied}, told)
	feed.lists(t, "10")
	feed.denied()
	f.events.flush(t.Context())
	require.Equal(t, []State{Denied}, told, "as before")
	feed.lists(t, "10")
	f.events.flush(t.Context())
	require.Equal(t, []State{Denied, Live}, told)
}

// A permission that is repeatedly granted and revoked wakes its owner only occasionally.
func TestOwnersAreToldWhatHasSettled(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var told atomic.Int32
	f.events.subscribe(&subscriber{notify: func(OwnerRef, ClaimStatus) { told.Add(1) }})
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
	require.Positive(t, told.Load())
	require.LessOrEqual(t, time.Duration(told.Load()-1)*100*time.Millisecond, time.Since(started))
	require.Equal(t, Denied, f.Status(ownerOf("o"))[0].State)
}

// An object temporarily stops matching the label selector of its kind, so the cache considers it deleted in the
// meantime.
func TestAnOwnerThatReturnsMayClaim(t *testing.T) {
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
			require.Empty(t, f.Status(ownerOf("p")), "it has not returned")
			owners.seesDeleted(t, configMapAt("o", "40", "o"))
			f.events.flush(t.Context())
			require.Empty(t, f.Status(ownerOf("o")))
			f.claim("o", Namespace("x"))
			require.Empty(t, f.Status(ownerOf("o")), "it was deleted again")
		})
	}
}

// An owner that claims what is Live already is not told that again.
func TestAClaimDoesNotNotifyOfItsFirstState(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	feed.lists(t, "10")
	f.secrets.news()
	require.Equal(t, Live, f.Ensure(t.Context(), ownerOf("p"), Claim{Kind: &corev1.Secret{}, Scope: Object("x", "a")})[0].State)
	require.Empty(t, f.secrets.news())
	feed.denied()
	require.Equal(t, Denied, f.Ensure(t.Context(), ownerOf("q"), Claim{Kind: &corev1.Secret{}, Scope: Namespace("x")})[0].State)
	news := f.secrets.news()
	require.Contains(t, news, ownerOf("o"))
	require.NotContains(t, news, ownerOf("q"))
	feed.lists(t, "20")
	require.Contains(t, f.secrets.news(), ownerOf("q"))
}
