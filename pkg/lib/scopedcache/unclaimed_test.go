package scopedcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (f *fake) read(name string) error {
	return f.Get(f.Context(), client.ObjectKey{Namespace: "x", Name: name}, &corev1.Secret{})
}

// requireUncovered requires that no list can be read, and none of these objects.
func (f *fake) requireUncovered(names ...string) {
	f.Helper()
	var uncovered *NotCoveredError
	for _, name := range names {
		require.ErrorAs(f, f.read(name), &uncovered, name)
	}
	for _, namespace := range []string{"", "x"} {
		got, err := f.names(client.InNamespace(namespace))
		require.ErrorAs(f, err, &uncovered, "namespace %q", namespace)
		require.Empty(f, got)
	}
}

// A watch outlives its last claim by Options.Linger. What it serves can no longer be read.
func TestALingeringWatchServesNobody(t *testing.T) {
	t.Parallel()
	for _, scope := range []Scope{Cluster(), Namespace("x"), Object("x", "a")} {
		f := newFake(t, func(o *Options) { o.Linger = time.Hour })
		f.claim("o", scope).lists(t, "10", secretAt("a", "10"))
		require.NoError(t, f.read("a"))
		f.Release(ownerOf("o"))
		require.NotNil(t, f.feed(scope), "the watch lingers")
		f.requireUncovered("a")
	}
}

// With Options.CoalesceObjects, the watch of a namespace serves claims for some of its objects.
func TestACoalescedWatchServesOnlyClaimedObjects(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(o *Options) { o.CoalesceObjects = 1 })
	f.claim("o", Object("x", "a"))
	f.claim("o", Object("x", "b"))
	f.feed(Namespace("x")).lists(t, "10", secretAt("a", "10"), secretAt("b", "10"), secretAt("c", "10"))
	require.NoError(t, f.read("a"))
	f.requireUncovered("c")
}

// While a read runs, the API server refuses the watch. The objects were dropped, but they were not deleted.
func TestAReadDuringARefusalIsRefused(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*fake) error{
		"get": func(f *fake) error {
			return f.Get(WithOwner(f.Context(), ownerOf("o")), client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{})
		},
		"list": func(f *fake) error {
			return f.List(WithOwner(f.Context(), ownerOf("o")), &corev1.SecretList{}, client.InNamespace("x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			feed := f.claim("o", Namespace("x"))
			feed.lists(t, "10", secretAt("a", "10"))
			f.Cache.Cache = &interrupted{Cache: f.Cache.Cache, get: feed.denied, list: feed.denied}
			err := read(f)
			require.True(t, apierrors.IsForbidden(err), "%v", err)
		})
	}
}

// A session that reads one object does not keep the claim for the cluster, although that claim serves the read.
func TestASessionKeepsOnlyWhatItRenewed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.claim("o", Cluster()).lists(t, "10", secretAt("a", "10"))
	session := f.Begin(ownerOf("o"))
	require.NoError(t, f.Get(session.Context(t.Context()), client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{}))
	session.Commit()
	got := f.Status(ownerOf("o"))
	require.Len(t, got, 1)
	require.Equal(t, Object("x", "a"), got[0].Claim.Scope)
}

// Without a UID, an object could not be distinguished from a later one with its name.
func TestAnOwnerHasAUID(t *testing.T) {
	t.Parallel()
	owner := configMapAt("o", "10", "uid")
	got, err := OwnerOf(owner, clientgoscheme.Scheme)
	require.NoError(t, err)
	require.Equal(t, owner.UID, got.UID)
	owner.UID = ""
	_, err = OwnerOf(owner, clientgoscheme.Scheme)
	require.Error(t, err)
}

func TestAReleaseKeepsTheClaimsOfOthers(t *testing.T) {
	t.Parallel()
	for _, scope := range []Scope{Cluster(), Namespace("x"), Object("x", "a")} {
		f := newFake(t)
		f.claim("other", scope)
		feed := f.claim("o", scope)
		feed.lists(t, "10", secretAt("a", "10"))
		f.Release(ownerOf("o"))
		require.Same(t, feed, f.feed(scope))
		require.NoError(t, f.read("a"))
		f.Release(ownerOf("other"))
		require.Nil(t, f.feed(scope))
		f.requireUncovered("a")
	}
}
