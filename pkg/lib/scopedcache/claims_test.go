package scopedcache

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env/racing"
)

func TestClaimsOfNilObjectsAreInvalid(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.claim("o", Namespace("x")) // the type is known
	for _, obj := range []client.Object{nil, (*corev1.Secret)(nil), (*unstructured.Unstructured)(nil), (*metav1.PartialObjectMetadata)(nil)} {
		require.NotPanics(t, func() {
			require.Equal(t, Invalid, f.Ensure(t.Context(), ownerOf("p"), Claim{Kind: obj, Scope: Namespace("x")})[0].State)
		})
	}
}

// Some API servers, such as aggregated ones, ignore field selectors.
func TestObjectsOutsideOfTheScopeAreNotStored(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	object := f.claim("o", Object("x", "a"))
	object.lists(t, "10", secretAt("a", "10"), secretAt("b", "10"))
	object.sees(t, secretAt("c", "20"))
	object.seesDeleted(t, secretAt("b", "30"))
	require.Equal(t, []string{"x/a"}, f.secrets.objects.index.ListKeys())
	require.Equal(t, []string{"add a 10"}, f.received())
	require.Equal(t, "30", object.version)
	f.Release(ownerOf("o"))
	require.Empty(t, f.secrets.objects.index.ListKeys())
}

// For example, a kind is busy while it stores a long list.
func TestABusyKindDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ctx := WithOwner(t.Context(), ownerOf("p"))
	configMaps := Claim{Kind: &corev1.ConfigMap{}, Scope: Namespace("y")}
	f.Ensure(ctx, ownerOf("p"), configMaps)
	f.configMaps.namespaces["y"].feed.lists(t, "10")
	f.claim("p", Namespace("x"))
	f.claim("q", Namespace("x"))
	f.secrets.mu.Lock()
	waiting := make(chan struct{}, 3)
	for _, change := range []func(){
		func() { f.claim("o", Namespace("x")) },
		func() { f.Release(ownerOf("q")) },
		func() { _ = f.Get(ctx, client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{}) },
	} {
		go func() {
			change()
			waiting <- struct{}{}
		}()
	}
	<-time.After(50 * time.Millisecond)
	done := make(chan struct{})
	go func() {
		_ = f.Get(ctx, client.ObjectKey{Namespace: "y", Name: "a"}, &corev1.ConfigMap{})
		f.Ensure(ctx, ownerOf("r"), configMaps)
		f.Release(ownerOf("r"))
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("another kind is delayed")
	}
	require.Empty(t, waiting)
	f.secrets.mu.Unlock()
	for range cap(waiting) {
		<-waiting
	}
}

func TestManyClaimsAreReleasedAtOnce(t *testing.T) {
	f := newFake(t)
	const count = 10_000
	for _, wider := range []string{"", "n"} {
		started := time.Now()
		for i := range count {
			f.Ensure(t.Context(), ownerOf("o"), Claim{Kind: &corev1.Secret{}, Scope: Object("x", fmt.Sprint("s", i))})
		}
		require.Less(t, time.Since(started), racing.Slowdown*2*time.Second)
		if wider != "" {
			f.claim(wider, Namespace("x")).lists(t, "10")
		}
		started = time.Now()
		f.Release(ownerOf("o"))
		require.Less(t, time.Since(started), racing.Slowdown*time.Second)
	}
}

func TestOptionsOfTheSameRepresentationTakePrecedence(t *testing.T) {
	t.Parallel()
	dynamic := &unstructured.Unstructured{}
	dynamic.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	f := newFake(t, func(o *Options) {
		o.ByKind = map[client.Object]KindOptions{dynamic: {}, &corev1.Secret{}: {Label: labels.Nothing()}}
	})
	for range 100 {
		require.NotNil(t, f.kindOptions(f.secrets.key).Label)
		require.NotNil(t, f.kindOptions(kindKey{gvk: f.secrets.key.gvk, as: metadataOnly}).Label)
		require.Nil(t, f.kindOptions(kindKey{gvk: f.secrets.key.gvk, as: dynamicObjects}).Label)
	}
}

// An operator can claim kinds that tenants choose.
func TestKindsWithoutClaimsAreFreed(t *testing.T) {
	t.Parallel()
	kinds := make([]*unstructured.Unstructured, 0, 100)
	f := newFake(t, func(o *Options) {
		for i := range cap(kinds) {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "tenant.example", Version: "v1", Kind: fmt.Sprint("Kind", i)})
			kinds = append(kinds, u)
			o.Mapper.(*meta.DefaultRESTMapper).Add(u.GroupVersionKind(), meta.RESTScopeNamespace)
		}
	})
	before := len(f.allKinds())
	for _, u := range kinds {
		f.Ensure(t.Context(), ownerOf("o"), Claim{Kind: u, Scope: Namespace("x")}, Claim{Kind: u, Scope: Cluster()})
	}
	f.events.flush(t.Context())
	require.Len(t, f.allKinds(), before+len(kinds))
	_, err := f.GetInformer(t.Context(), kinds[0]) // a kind with an informer is kept
	require.NoError(t, err)
	require.NoError(t, f.IndexField(t.Context(), kinds[1], "x", func(client.Object) []string { return nil }))
	f.Release(ownerOf("o"))
	f.events.flush(t.Context())
	require.Len(t, f.allKinds(), before+2)
	require.Equal(t, Syncing, f.Ensure(t.Context(), ownerOf("o"), Claim{Kind: kinds[2], Scope: Namespace("x")})[0].State)
}

// A claim is recorded before its kind is updated. In between, the kind can be freed and created again.
func TestAFreedKindIgnoresClaims(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	owned := ownedScope{kind: kindKey{gvk: corev1.SchemeGroupVersion.WithKind("Pod")}, scope: Namespace("x")}
	freed, err := f.own(ownerOf("o"), owned)
	require.NoError(t, err)
	f.Release(ownerOf("o"))
	f.free(t.Context(), freed)
	f.Ensure(t.Context(), ownerOf("o"), Claim{Kind: &corev1.Pod{}, Scope: owned.scope})
	require.NotSame(t, freed, f.known(owned.kind))
	freed.update(ownerOf("o"), owned.scope)
	require.Empty(t, freed.namespaces)
}

// If a freed kind is claimed again, reads use its new store.
func TestAFreedKindCanBeClaimedAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	key := kindKey{gvk: u.GroupVersionKind(), as: dynamicObjects}
	for i := range 3 {
		f.Ensure(t.Context(), ownerOf("o"), Claim{Kind: u, Scope: Object("x", "a")})
		stored := u.DeepCopy()
		stored.SetNamespace("x")
		stored.SetName("a")
		stored.SetResourceVersion(fmt.Sprint(i))
		f.known(key).namespaces["x"].objects["a"].feed.lists(t, fmt.Sprint(i), stored)
		got := u.DeepCopy()
		require.NoError(t, f.Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "a"}, got))
		require.Equal(t, fmt.Sprint(i), got.GetResourceVersion())
		f.Release(ownerOf("o"))
		f.events.flush(t.Context())
		require.Nil(t, f.known(key))
	}
}

// Transform can return an error for the last state of an object. The cache removes the object anyway.
func TestADeletionIsReportedEvenIfTransformFails(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(o *Options) {
		o.ByKind = map[client.Object]KindOptions{&corev1.Secret{}: {Transform: func(obj any) (any, error) {
			if obj.(*corev1.Secret).Annotations["bad"] != "" {
				return nil, errors.New("refused")
			}
			return obj, nil
		}}}
	})
	bad := func(name string) *corev1.Secret {
		s := secretAt(name, "20")
		s.Annotations = map[string]string{"bad": "true"}
		return s
	}
	feed := f.claim("o", Namespace("x"))
	feed.lists(t, "10", secretAt("a", "10"))
	require.Error(t, feed.kind.observe(feed, bad("a"), false), "the reflector reports it")
	require.NoError(t, feed.kind.observe(feed, bad("a"), true))
	require.NoError(t, feed.kind.observe(feed, bad("unknown"), true))
	require.Equal(t, []string{"add a 10", "delete a 20"}, f.received())
	require.Empty(t, f.secrets.objects.index.ListKeys())

	wider := f.claim("o", Cluster()) // the wider feed collects objects until it takes over
	require.NoError(t, wider.kind.listed(wider, []any{secretAt("b", "30")}, "30"))
	wider.ready = true
	require.NoError(t, wider.kind.observe(wider, bad("b"), true))
	require.Empty(t, wider.collected)
}
