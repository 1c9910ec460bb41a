package scopedcache_test

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// withoutMetadata removes large fields and records the kinds of the objects.
func withoutMetadata(kinds *sync.Map) toolscache.TransformFunc {
	return func(received any) (any, error) {
		obj := received.(client.Object)
		obj.SetAnnotations(nil)
		obj.SetManagedFields(nil)
		kinds.Store(obj.GetObjectKind().GroupVersionKind().Kind, true)
		return obj, nil
	}
}

func annotate(t *testing.T, w *world, obj client.Object, value string) {
	t.Helper()
	patch := client.MergeFrom(obj.DeepCopyObject().(client.Object))
	obj.SetAnnotations(map[string]string{"long": value})
	require.NoError(t, w.admin.Patch(t.Context(), obj, patch))
}

func TestTransformChangesListedAndWatchedObjects(t *testing.T) {
	t.Parallel()
	dynamic, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	dynamic.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	for name, kind := range map[string]client.Object{"typed": &corev1.Secret{}, "dynamic": dynamic, "metadata": metadata} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kinds sync.Map
			w := given(t, func(o *scopedcache.Options) { o.Transform = withoutMetadata(&kinds) })
			x := w.namespace()
			w.grant(x, all)
			a := w.secret(x, "a")
			annotate(t, w, a, "listed")

			var delivered sync.Map
			informer, err := w.GetInformer(t.Context(), kind)
			require.NoError(t, err)
			record := func(obj any) {
				is := obj.(client.Object)
				delivered.Store(is.GetName()+" "+is.GetResourceVersion(), len(is.GetAnnotations())+len(is.GetManagedFields()))
			}
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: record, UpdateFunc: func(_, obj any) { record(obj) }})
			require.NoError(t, err)
			w.claim(owner("o"), scopedcache.Live, scopedcache.Claim{Kind: kind, Scope: scopedcache.Namespace(x)})
			has := func(obj client.Object) {
				t.Helper()
				w.eventually(func(ct *assert.CollectT) {
					got := kind.DeepCopyObject().(client.Object)
					if !assert.NoError(ct, w.Get(t.Context(), client.ObjectKeyFromObject(obj), got)) {
						return
					}
					assert.Equal(ct, obj.GetResourceVersion(), got.GetResourceVersion())
					assert.Empty(ct, got.GetAnnotations())
					assert.Empty(ct, got.GetManagedFields())
					count, ok := delivered.Load(obj.GetName() + " " + obj.GetResourceVersion())
					assert.True(ct, ok)
					assert.Zero(ct, count)
				})
			}
			has(a)
			annotate(t, w, a, "changed")
			has(a)
			has(w.secret(x, "b"))
			_, ok := kinds.Load("")
			require.False(t, ok, "the kind is set when Transform is called")
			_, ok = kinds.Load("Secret")
			require.True(t, ok)
		})
	}
}

// The objects of a list may fit into memory only if they are transformed as they are received.
func TestTransformDoesNotWaitForTheEndOfAList(t *testing.T) {
	t.Parallel()
	changed := make(chan string, 10)
	w := scripted(t, func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") == "" {
			return failing(r, 500, "InternalError")
		}
		return streaming(r, func(to io.Writer) {
			_, _ = io.WriteString(to, addedSecret)
			<-r.Context().Done()
		})
	}, func(o *scopedcache.Options) {
		o.Transform = func(obj any) (any, error) {
			changed <- obj.(*corev1.Secret).Name
			return obj, nil
		}
	})
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
	select {
	case <-changed:
	case <-time.After(time.Minute):
		require.Fail(t, "Transform was not called")
	}
}

func TestAKindMayHaveItsOwnTransform(t *testing.T) {
	t.Parallel()
	own := errors.New("its own")
	w := given(t, func(o *scopedcache.Options) {
		o.Transform = func(obj any) (any, error) { return obj, nil }
		o.ByKind = map[client.Object]scopedcache.KindOptions{&corev1.Secret{}: {Transform: func(any) (any, error) { return nil, own }}}
	})
	x := w.namespace()
	w.grant(x, all)
	w.secret(x, "a")
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace(x)))
	require.Contains(t, w.becomes(owner("o"), scopedcache.Namespace(x), scopedcache.Backoff).Reason, own.Error())
}

func TestTheBuilderSupportsADefaultTransform(t *testing.T) {
	t.Parallel()
	given := prepare(t)
	x := given.namespace()
	given.grant(x, all)
	a := given.secret(x, "a")
	require.NotEmpty(t, a.ManagedFields)
	built, err := scopedcache.Builder(scopedcache.Options{}, &given.Cache)(rest.CopyConfig(given.config), cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	require.NoError(t, err)
	require.Same(t, given.Cache, built)
	given.start()
	given.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace(x)))
	got, err := given.read(x, "a")
	require.NoError(t, err)
	require.Empty(t, got.ManagedFields)
}
