package scopedcache_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// custom is a kind that a test installs and deletes.
type custom struct {
	group string
}

func newCustom() custom { return custom{group: rand.String(8) + ".example.com"} }

func (c custom) object(namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: c.group, Version: "v1", Kind: "Thing"})
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func (w *world) install(c custom, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things." + c.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: c.group, Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		},
	}
	require.NoError(w, w.admin.Create(w.Context(), crd))
	w.Cleanup(func() { require.NoError(w, client.IgnoreNotFound(w.admin.Delete(context.Background(), crd))) })
	return crd
}

func (w *world) uninstall(crd *apiextensionsv1.CustomResourceDefinition) {
	w.Helper()
	require.NoError(w, w.admin.Delete(w.Context(), crd))
	w.eventually(func(ct *assert.CollectT) {
		assert.Error(ct, w.admin.Get(w.Context(), client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{}))
	})
}

// made creates an object of the kind once the API server accepts it.
func (w *world) made(obj client.Object) {
	w.Helper()
	w.eventually(func(ct *assert.CollectT) {
		admin, err := client.New(controlplane.Shared(w).Config(), client.Options{}) // a new client uses the current scope of the kind
		if assert.NoError(ct, err) {
			assert.NoError(ct, admin.Create(w.Context(), obj.DeepCopyObject().(client.Object)))
		}
	})
}

func TestT38AKindIsInstalledAndRemoved(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, c, o := w.namespace(), newCustom(), owner("o")
	w.grantOn(c.group, "things", "", all)
	claim := scopedcache.Claim{Kind: c.object("", ""), Scope: scopedcache.Namespace(x)}
	w.claim(o, scopedcache.Absent, claim)
	err := w.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, c.object("", ""))
	require.True(t, meta.IsNoMatchError(err), "%v", err)
	var absent *scopedcache.AbsentError
	require.ErrorAs(t, err, &absent)

	crd := w.install(c, apiextensionsv1.NamespaceScoped)
	w.made(c.object(x, "a"))
	w.becomes(o, claim.Scope, scopedcache.Live)
	e := w.handle(c.object("", ""))
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add a"}, peek(e)) })
	w.uninstall(crd)
	w.becomes(o, claim.Scope, scopedcache.Absent)
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add a", "delete a"}, peek(e)) })

	w.install(c, apiextensionsv1.NamespaceScoped)
	w.made(c.object(x, "b"))
	w.becomes(o, claim.Scope, scopedcache.Live)
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, w.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "b"}, c.object("", "")))
	})
}

func TestT39AKindChangesItsScope(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, c, o := w.namespace(), newCustom(), owner("o")
	w.grantOn(c.group, "things", "", all)
	crd := w.install(c, apiextensionsv1.NamespaceScoped)
	w.made(c.object(x, "a"))
	w.claim(o, scopedcache.Live, scopedcache.Claim{Kind: c.object("", ""), Scope: scopedcache.Cluster()})
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "a"}, c.object("", "")))
	w.uninstall(crd)
	w.becomes(o, scopedcache.Cluster(), scopedcache.Absent)

	crd = w.install(c, apiextensionsv1.ClusterScoped)
	w.made(c.object("", "b"))
	w.becomes(o, scopedcache.Cluster(), scopedcache.Live)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: c.group, Version: "v1", Kind: "ThingList"})
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, w.List(t.Context(), list))
		if assert.Len(ct, list.Items, 1) {
			assert.Equal(ct, "b", list.Items[0].GetName())
		}
	})
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, w.Get(t.Context(), client.ObjectKey{Name: "b"}, c.object("", "")))
	})
	w.uninstall(crd)
	w.becomes(o, scopedcache.Cluster(), scopedcache.Absent)

	w.install(c, apiextensionsv1.NamespaceScoped)
	w.made(c.object(x, "c"))
	w.becomes(o, scopedcache.Cluster(), scopedcache.Live)
	w.eventually(func(ct *assert.CollectT) {
		assert.NoError(ct, w.Get(t.Context(), client.ObjectKey{Namespace: x, Name: "c"}, c.object("", "")))
	})
}
