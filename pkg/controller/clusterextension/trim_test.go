package clusterextension

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/proofs"
)

// long is content that another user writes to objects.
var long = strings.Repeat("x", 1000)

// foreign returns an object of another user. Anyone can set the labels of an install, but not its proof.
func foreign(u *unit, obj *unstructured.Unstructured) *unstructured.Unstructured {
	proofs.Mark(obj, u.owner(extension("a")))
	obj.SetAnnotations(map[string]string{"long": long})
	obj.SetFinalizers([]string{"example.com/" + long})
	obj.SetUID("uid")
	obj.SetResourceVersion("5")
	return obj
}

func TestOnlyObjectsOfInstallsAreCachedCompletely(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{})
	given := func(kind schema.GroupVersionKind) *unstructured.Unstructured {
		obj := foreign(u, apply.Reference(kind, "ns", "x"))
		obj.Object["spec"] = map[string]any{"long": long}
		return obj
	}
	trimmed := func(obj *unstructured.Unstructured) (client.Object, string) {
		is, err := trimmer(u.Proofs)(obj)
		require.NoError(t, err)
		text, err := json.Marshal(is)
		require.NoError(t, err)
		return is.(client.Object), string(text)
	}
	for _, kind := range []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap"), appsv1.SchemeGroupVersion.WithKind("Deployment")} {
		is, text := trimmed(given(kind))
		require.IsType(t, kindFor(given(kind)), is)
		require.Less(t, len(text), 250, text)
		require.Equal(t, keyOf(given(kind)), keyOf(is))
		require.Equal(t, given(kind).GetUID(), is.GetUID())
		require.Equal(t, "5", is.GetResourceVersion())

		own := given(kind)
		proofs.Mark(own, u.owner(extension("a")))
		is, text = trimmed(own)
		require.Same(t, own, is)
		require.Contains(t, text, long)
	}
}

// listing sends a list of objects as events, and then nothing.
func listing(t *testing.T, objs ...*unstructured.Unstructured) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, req *http.Request) {
		to.Header().Set("Content-Type", "application/json")
		send := func(kind string, obj *unstructured.Unstructured) {
			_ = json.NewEncoder(to).Encode(map[string]any{"type": kind, "object": obj.Object})
		}
		for _, obj := range objs {
			obj = obj.DeepCopy()
			obj.SetAPIVersion("meta.k8s.io/v1")
			obj.SetKind("PartialObjectMetadata")
			send("ADDED", obj)
		}
		end := apply.Reference(schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"}, "", "")
		end.SetResourceVersion("10")
		end.SetAnnotations(map[string]string{"k8s.io/initial-events-end": "true"})
		send("BOOKMARK", end)
		to.(http.Flusher).Flush()
		<-req.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s
}

// A watch of a namespace also receives objects of other users.
func TestForeignObjectsInASharedWatchAreTrimmed(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{})
	other := foreign(u, apply.Reference(corev1.SchemeGroupVersion.WithKind("ConfigMap"), "ns", "other"))
	own := apply.Reference(corev1.SchemeGroupVersion.WithKind("ConfigMap"), "ns", "own")
	own.SetResourceVersion("6")
	own.SetAnnotations(map[string]string{"a": "b"})
	proofs.Mark(own, u.owner(extension("a")))
	w := givenWatches(t, listing(t, other, own), func(schema.GroupKind) error { return nil })
	var claims []watched
	for _, obj := range []*unstructured.Unstructured{own, other} {
		claims = append(claims, watched{obj, scopedcache.Namespace("ns")})
	}
	require.NoError(t, w.claim(t.Context(), extension("a"), scoped.Identity{Extension: "a"}, claims))
	var got []client.Object
	require.Eventually(t, func() bool {
		got = nil
		for _, obj := range []*unstructured.Unstructured{own, other} {
			if is, known := w.get(t.Context(), "a", obj); known && is != nil {
				got = append(got, is)
			}
		}
		return len(got) == 2
	}, time.Minute, time.Millisecond)
	require.Equal(t, own.GetLabels(), got[0].GetLabels())
	require.Equal(t, own.GetAnnotations(), got[0].GetAnnotations())
	require.Equal(t, "5", got[1].GetResourceVersion())
	require.Empty(t, got[1].GetAnnotations())
	require.Empty(t, got[1].GetFinalizers())
}
