package scopedcache_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

func requireNotCovered(t *testing.T, err error) {
	t.Helper()
	var not *scopedcache.NotCoveredError
	require.ErrorAs(t, err, &not)
	require.False(t, apierrors.IsNotFound(err))
}

func TestT01OneWatchServesThreeScopes(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grant("", all)
	x := w.namespace()
	w.secret(x, "a")
	w.claim(owner("cluster"), scopedcache.Live, secrets(scopedcache.Cluster()))
	w.claim(owner("namespace"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.claim(owner("object"), scopedcache.Live, secrets(scopedcache.Object(x, "a")))
	w.watches("")
	got, err := w.read(x, "a")
	require.NoError(t, err)
	require.Equal(t, "a", string(got.Data["key"]))
	list, err := w.names(client.InNamespace(x))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, list)
}

func TestT02ObjectsAreWatchedByName(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	for _, name := range []string{"a", "b", "c"} {
		w.secret(x, name)
	}
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Object(x, "a")), secrets(scopedcache.Object(x, "b")))
	for _, name := range []string{"a", "b"} {
		_, err := w.read(x, name)
		require.NoError(t, err)
	}
	_, err := w.read(x, "c")
	requireNotCovered(t, err)
	w.watches(x+"/a", x+"/b")
}

func TestT03PermissionForOneNameIsEnough(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.secret(x, "a")
	w.grant(x, all, "a")
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Object(x, "a")))
	_, err := w.read(x, "a")
	require.NoError(t, err)
	requests := w.log.take("secrets")
	require.NotEmpty(t, requests)
	for _, r := range requests {
		require.Equal(t, "watch secrets "+x+"/a", r)
	}
	for _, review := range []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"} {
		require.Empty(t, w.log.take(review))
	}
}

func TestT04AListOfTheClusterJoinsTheClaimedNamespaces(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y, z := w.namespace(), w.namespace(), w.namespace()
	for _, ns := range []string{x, y, z} {
		w.grant(ns, all)
		w.secret(ns, "in-"+ns)
	}
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Namespace(y)))
	list, err := w.names(client.InNamespace(x))
	require.NoError(t, err)
	require.Equal(t, []string{"in-" + x}, list)
	both := []string{"in-" + x, "in-" + y}
	list, err = w.names()
	require.NoError(t, err)
	require.ElementsMatch(t, both, list)

	// A single object that is claimed in another namespace is not part of the list.
	w.claim(owner("other"), scopedcache.Live, secrets(scopedcache.Object(z, "in-"+z)))
	list, err = w.names()
	require.NoError(t, err)
	require.ElementsMatch(t, both, list)
	list, err = w.names(client.Limit(1))
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestT05AnObjectMayNotExistYet(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	e := w.handle(&corev1.Secret{})
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Object(x, "later")))
	_, err := w.read(x, "later")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	w.secret(x, "later")
	w.eventually(func(ct *assert.CollectT) {
		_, err := w.read(x, "later")
		assert.NoError(ct, err)
	})
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add later"}, e.take()) })
}

func TestT06NothingIsReadWithoutAClaim(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant("", []string{"get", "list", "watch"})
	w.secret(x, "a")
	_, err := w.read(x, "a")
	requireNotCovered(t, err)
	_, err = w.names()
	requireNotCovered(t, err)
	_, err = w.names(client.InNamespace(x))
	requireNotCovered(t, err)
	require.Empty(t, w.log.take("secrets"))

	live := given(t, func(o *scopedcache.Options) { o.Uncovered = scopedcache.ReadUncovered })
	live.grant(x, []string{"get", "list"})
	_, err = live.read(x, "a")
	require.NoError(t, err)
	require.Equal(t, []string{"get secrets " + x + "/a"}, live.log.take("secrets"))
	list, err := live.names(client.InNamespace(x))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, list)
	live.watches()
}

func TestT07ReadsOfAnOwnerClaim(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant("", all)
	w.secret(x, "a")
	ctx := scopedcache.WithOwner(t.Context(), owner("o"))
	for range 2 {
		require.NoError(t, w.Get(ctx, client.ObjectKey{Namespace: x, Name: "a"}, &corev1.Secret{}))
	}
	w.watches(x + "/a")
	require.Len(t, w.log.take("secrets"), 1, "a watch that begins with a list")
	require.NoError(t, w.List(ctx, &corev1.SecretList{}, client.InNamespace(x)))
	w.watches(x)
	require.NoError(t, w.List(ctx, &corev1.SecretList{}))
	w.watches("")
	require.NoError(t, w.Get(ctx, client.ObjectKey{Namespace: x, Name: "a"}, &corev1.Secret{}))
	w.Release(owner("o"))
	w.watches()
}

// A refused claim for the cluster does not cover its namespaces.
func TestT07ReadsOfAnOwnerClaimNarrowerScopesAfterARefusal(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	o := owner("o")
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Cluster()))
	ctx := scopedcache.WithOwner(t.Context(), o)
	list := &corev1.SecretList{}
	require.NoError(t, w.List(ctx, list, client.InNamespace(x)))
	require.Len(t, list.Items, 1)
	require.Len(t, w.Status(o), 2)
	w.watches(x)
}

func TestT08ClusterScopedKinds(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grantOn("", "namespaces", "", all)
	kind := &corev1.Namespace{}
	one := scopedcache.Object("", x)
	w.claim(owner("o"), scopedcache.Live, scopedcache.Claim{Kind: kind, Scope: one})
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: x}, &corev1.Namespace{}))
	err := w.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
	requireNotCovered(t, err)

	w.Ensure(t.Context(), owner("o"), scopedcache.Claim{Kind: kind, Scope: scopedcache.Namespace(x)})
	got := w.becomes(owner("o"), scopedcache.Namespace(x), scopedcache.Invalid)
	require.Contains(t, got.Reason, "Namespace is cluster-scoped")
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Object("", "a")))
	got = w.becomes(owner("o"), scopedcache.Object("", "a"), scopedcache.Invalid)
	require.Contains(t, got.Reason, "Secret is namespaced")

	w.claim(owner("o"), scopedcache.Live, scopedcache.Claim{Kind: kind, Scope: scopedcache.Cluster()})
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{}))
}

// Namespaces and names are part of request paths, and the clients for dynamic and metadata-only kinds do not escape
// them.
func TestScopesThatWouldChangeAPathAreInvalid(t *testing.T) {
	t.Parallel()
	w := scripted(t, watching)
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	for i, scope := range []scopedcache.Scope{
		scopedcache.Namespace(".."), scopedcache.Namespace("a/../../../../apis/x"), scopedcache.Namespace("a/b"), scopedcache.Namespace("a%2fb"),
		scopedcache.Namespace("a?b"), scopedcache.Namespace("A"), scopedcache.Object("..", "a"), scopedcache.Object("x", ".."),
		scopedcache.Object("x", "."), scopedcache.Object("x", "a/b"), scopedcache.Object("x", ""),
	} {
		w.claim(owner(fmt.Sprint("typed", i)), scopedcache.Invalid, secrets(scope))
		w.claim(owner(fmt.Sprint("partial", i)), scopedcache.Invalid, scopedcache.Claim{Kind: partial, Scope: scope})
	}
	require.Empty(t, w.log.take(""))
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Object("x", "system:a.b")))
}

func TestInvalidScopesAreNotLiveUnderAWiderWatch(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grant("", all)
	w.grantOn("", "namespaces", "", all)
	w.claim(owner("secrets"), scopedcache.Live, secrets(scopedcache.Cluster()))
	w.claim(owner("namespaces"), scopedcache.Live, scopedcache.Claim{Kind: &corev1.Namespace{}, Scope: scopedcache.Cluster()})
	for _, claim := range []scopedcache.Claim{
		secrets(scopedcache.Namespace("a/b")), secrets(scopedcache.Object("", "a")), secrets(scopedcache.Object("x", "")),
		{Kind: &corev1.Namespace{}, Scope: scopedcache.Namespace("x")},
	} {
		got := w.Ensure(t.Context(), owner("o"), claim)
		require.Equal(t, scopedcache.Invalid, got[0].State, claim.Scope)
		require.NotEmpty(t, got[0].Reason)
	}
	_, err := w.Wait(t.Context(), owner("o"))
	require.NoError(t, err)
}
