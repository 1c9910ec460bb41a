package clusterextension_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/test/env/audit"
)

// rendered returns all objects that an install of the manifests writes.
func (w *world) rendered(manifests ...string) []*unstructured.Unstructured {
	w.t.Helper()
	content := &catalog.Content{}
	for _, m := range manifests {
		content.Manifests = append(content.Manifests, []byte(strings.NewReplacer("NAME", w.name, "VERSION", "1.0.0").Replace(m)))
	}
	b, err := bundle.ParseContent(w.t.Context(), content)
	require.NoError(w.t, err)
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	ext.Spec.Namespace = w.name
	ext.Spec.Source.Catalog = &olmv1.CatalogFilter{PackageName: "op"}
	r, err := render.Render(render.Input{Bundle: b, Owner: assess.Owner(ext, "op.v1.0.0")})
	require.NoError(w.t, err)
	var out []*unstructured.Unstructured
	for _, o := range r.Objects {
		out = append(out, o.Unstructured)
	}
	return out
}

// If an object of any kind that an install writes exists and belongs to someone else, nothing at all is written.
func TestAnyCollisionIsKnownBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	i := strings.Index(crd, "versions:")
	manifests := []string{webhookCSV(), crd[:i] + twoVersions, configMap,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: more}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: more}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: more},
		  subjects: [{kind: ServiceAccount, name: op, namespace: NAME}]}`,
	}
	kinds := map[string]bool{}
	for n, obj := range given(t).rendered(manifests...) {
		if kinds[obj.GetKind()] {
			continue
		}
		kinds[obj.GetKind()] = true
		t.Run(obj.GetKind(), func(t *testing.T) {
			t.Parallel()
			w := given(t)
			w.grantAll()
			theirs := w.rendered(manifests...)[n]
			name := apply.Describe(theirs)
			theirs.SetLabels(nil)
			theirs.SetAnnotations(nil)
			theirs.SetOwnerReferences(nil)
			w.create(theirs)
			t.Cleanup(func() { _ = w.admin.Delete(context.Background(), theirs) })
			w.publish("1.0.0", "", manifests...)
			from := w.logEnd()
			w.install()
			w.retries(name + " already exists and was not created by this install")
			require.Empty(t, w.requests(from, func(e audit.Event) bool {
				return w.sentAs(e) && e.IsWrite() && e.Object.Resource != "selfsubjectreviews"
			}))
		})
	}
	require.Equal(t, map[string]bool{
		"CustomResourceDefinition": true, "ConfigMap": true, "Service": true, "Secret": true, "ServiceAccount": true, "Deployment": true, "ClusterRole": true,
		"ClusterRoleBinding": true, "Role": true, "RoleBinding": true, "ValidatingWebhookConfiguration": true,
	}, kinds)
}
