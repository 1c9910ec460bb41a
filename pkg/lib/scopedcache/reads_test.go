package scopedcache_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

var (
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
	truth      = true
)

func TestT09RepresentationsAreIndependent(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	dynamic, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	dynamic.SetGroupVersionKind(secretKind)
	metadata.SetGroupVersionKind(secretKind)
	key := client.ObjectKey{Namespace: x, Name: "a"}
	for _, kind := range []client.Object{&corev1.Secret{}, dynamic, metadata} {
		read := func() (client.Object, error) {
			out := kind.DeepCopyObject().(client.Object)
			return out, w.Get(t.Context(), key, out)
		}
		_, err := read()
		requireNotCovered(t, err)
		w.Ensure(t.Context(), owner("o"), scopedcache.Claim{Kind: kind, Scope: scopedcache.Namespace(x)})
		got, err := read()
		require.NoError(t, err)
		require.Equal(t, secretKind, got.GetObjectKind().GroupVersionKind())
		require.Equal(t, "a", got.GetName())
	}
	w.watches(x, x, x)
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	require.NoError(t, w.List(t.Context(), list, client.InNamespace(x)))
	require.Len(t, list.Items, 1)
	require.Equal(t, secretKind, list.Items[0].GroupVersionKind())
}

func TestT10ReadersGetCopies(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) {
		o.ByKind = map[client.Object]scopedcache.KindOptions{&corev1.ConfigMap{}: {UnsafeDisableDeepCopy: &truth}}
	})
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	got, err := w.read(x, "a")
	require.NoError(t, err)
	got.Data["key"] = []byte("changed")
	got, err = w.read(x, "a")
	require.NoError(t, err)
	require.Equal(t, "a", string(got.Data["key"]))
	for _, opts := range [][]client.ListOption{{client.InNamespace(x)}, {client.InNamespace(x), client.Limit(9)}} {
		for range 2 {
			list := &corev1.SecretList{}
			require.NoError(t, w.List(t.Context(), list, opts...))
			require.Len(t, list.Items, 1)
			require.Equal(t, "a", string(list.Items[0].Data["key"]))
			list.Items[0].Data["key"] = []byte("changed")
		}
	}

	w.grantOn("", "configmaps", x, all)
	require.NoError(t, w.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "a"}, Data: map[string]string{"key": "a"}}))
	w.claim(owner("o"), scopedcache.Live, scopedcache.Claim{Kind: &corev1.ConfigMap{}, Scope: scopedcache.Namespace(x)})
	var shared corev1.ConfigMap
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, w.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, &shared))
	})
	shared.Data["key"] = "changed"
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, &shared))
	require.Equal(t, "changed", shared.Data["key"])
	list := &corev1.ConfigMapList{}
	require.NoError(t, w.List(t.Context(), list, client.InNamespace(x)))
	require.True(t, slices.ContainsFunc(list.Items, func(c corev1.ConfigMap) bool { return c.Data["key"] == "changed" }))
}

func TestT11IndexesAreAlwaysComplete(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y := w.namespace(), w.namespace()
	w.grant("", all)
	w.secret(x, "a")
	w.secret(y, "a")
	byKey := func(obj client.Object) []string { return []string{string(obj.(*corev1.Secret).Data["key"])} }
	require.NoError(t, w.IndexField(t.Context(), &corev1.Secret{}, "early", byKey))
	find := func(field string, want int, opts ...client.ListOption) {
		t.Helper()
		list, err := w.names(append(opts, client.MatchingFields{field: "a"})...)
		require.NoError(t, err)
		require.Len(t, list, want)
	}
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	find("early", 1, client.InNamespace(x))
	find("early", 1)
	require.NoError(t, w.IndexField(t.Context(), &corev1.Secret{}, "late", byKey))
	find("late", 1, client.InNamespace(x))
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Cluster()))
	for _, field := range []string{"early", "late"} {
		find(field, 1, client.InNamespace(y))
		list, err := w.names(client.MatchingFields{field: "a"})
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(list), 2)
	}
}

// The results must be the same as those of controller-runtime's cache.
func TestT12ListsMatchControllerRuntime(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y := w.namespace(), w.namespace()
	w.grant("", all)
	for _, ns := range []string{x, y} {
		for _, name := range []string{"a", "b", "c"} {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"is": name, "test": x}}}
			require.NoError(t, w.admin.Create(t.Context(), s))
		}
	}
	theirs, err := cache.New(w.config, cache.Options{})
	require.NoError(t, err)
	go func() { _ = theirs.Start(t.Context()) }()
	index := func(obj client.Object) []string { return []string{obj.GetName()} }
	for _, c := range []cache.Cache{w.Cache, theirs} {
		require.NoError(t, c.IndexField(t.Context(), &corev1.Secret{}, "name", index))
	}
	require.True(t, theirs.WaitForCacheSync(t.Context()))
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Cluster()))
	mine := client.MatchingLabels{"test": x}
	for name, opts := range map[string][]client.ListOption{
		"all":                         {mine},
		"a namespace":                 {client.InNamespace(x)},
		"labels":                      {mine, client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{"is": "a"})}},
		"a field":                     {mine, client.MatchingFields{"name": "b"}},
		"a field in a namespace":      {client.InNamespace(y), client.MatchingFields{"name": "b"}},
		"an unknown field":            {client.MatchingFields{"unknown": "b"}},
		"a field without an index":    {client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("name", "a")}},
		"continuation":                {client.Continue("x")},
		"a limit":                     {client.InNamespace(x), client.Limit(2)},
		"a limit with labels":         {mine, client.MatchingLabels{"is": "a"}, client.Limit(5)},
		"a namespace without objects": {client.InNamespace("nothing")},
	} {
		var got, want corev1.SecretList
		gotErr, wantErr := w.List(t.Context(), &got, opts...), theirs.List(t.Context(), &want, opts...)
		require.Equal(t, wantErr, gotErr, name)
		require.Equal(t, want.Continue, got.Continue, name)
		if name == "a limit" { // with a limit, the cache determines which objects it returns
			require.Len(t, got.Items, len(want.Items), name)
			continue
		}
		require.ElementsMatch(t, want.Items, got.Items, name)
	}
}

func TestT13ADeadlineEndsARead(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	w.grant(x, all)
	w.grantOn("", "configmaps", x, all)
	w.log.intercept(func(r *http.Request) (*http.Response, error) {
		if describe(r) == "watch secrets "+x {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return nil, nil
	})
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace(x)))
	w.claim(owner("other"), scopedcache.Live, scopedcache.Claim{Kind: &corev1.ConfigMap{}, Scope: scopedcache.Namespace(x)})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Get(ctx, client.ObjectKey{Namespace: x, Name: "a"}, &corev1.Secret{}) }()
	require.NoError(t, w.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(x)), "other kinds are not delayed")
	err := <-ended
	var not *scopedcache.NotSyncedError
	require.ErrorAs(t, err, &not)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, apierrors.IsTimeout(err))

	short := given(t, func(o *scopedcache.Options) { o.ReadTimeout = 50 * time.Millisecond })
	short.log.intercept(func(r *http.Request) (*http.Response, error) { return nil, errors.New("out of order") })
	short.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace(x)))
	_, err = short.read(x, "a")
	require.ErrorAs(t, err, &not)
}

func TestT14AListIsNeverSilentlyIncomplete(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		w := given(t, func(o *scopedcache.Options) { o.PartialList = partial })
		x, y, z := w.namespace(), w.namespace(), w.namespace()
		w.grant(x, all)
		w.grant(y, all)
		w.secret(x, "a")
		w.secret(y, "b")
		o := owner("o")
		w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Namespace(y)))
		w.claim(o, scopedcache.Denied, secrets(scopedcache.Namespace(z)))
		list, err := w.names()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "cannot list and watch secrets in namespace "+z)
		require.ErrorContains(t, err, w.user)
		var gap *scopedcache.GapError
		require.Equal(t, partial, errors.As(err, &gap))
		if partial {
			require.ElementsMatch(t, []string{"a", "b"}, list)
		} else {
			require.Empty(t, list)
		}
	}
}

func TestT15ClaimsForObjectsDoNotCoverTheirNamespace(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		w := given(t, func(o *scopedcache.Options) { o.PartialList = partial })
		x := w.namespace()
		w.grant(x, all)
		w.secret(x, "a")
		w.secret(x, "b")
		w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Object(x, "a")))
		for _, opts := range [][]client.ListOption{{client.InNamespace(x)}, nil} {
			list, err := w.names(opts...)
			requireNotCovered(t, err)
			if partial {
				require.Equal(t, []string{"a"}, list)
			} else {
				require.Empty(t, list)
			}
		}
	}
}
