package env

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRD returns a CustomResourceDefinition with one served version, v1, that accepts any object.
func CRD(plural, group, kind string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true)}}}},
		},
	}
}

// nudge is the interval at which RemoveCRD updates the CustomResourceDefinition while waiting for its deletion.
const nudge = 3 * time.Second

// RemoveCRD deletes a CustomResourceDefinition and waits until it no longer exists. The API server sometimes does not
// finish the cleanup of a CustomResourceDefinition that was just established: after a conflict, its finalizer
// controller ignores the event for the conflicting write if only a condition differs. Any other change resumes the
// cleanup.
func (tn *Tenant) RemoveCRD(crd *apiextensionsv1.CustomResourceDefinition) {
	tn.T.Helper()
	c, touched := tn.Cluster.Client, time.Now()
	require.NoError(tn.T, c.Delete(tn.T.Context(), crd))
	tn.Eventually(func(t *assert.CollectT) {
		err := c.Get(tn.T.Context(), client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		if err == nil && time.Since(touched) > nudge {
			touched = time.Now()
			assert.NoError(t, Nudge(tn.T.Context(), c, crd))
		}
	})
}

// Nudge changes a CustomResourceDefinition that is being deleted, so that the API server resumes its cleanup (see RemoveCRD).
func Nudge(ctx context.Context, c client.Client, crd client.Object) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test.remit.dev/touched":%q}}}`, time.Now())
	return client.IgnoreNotFound(c.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch)))
}

// Gadgets returns a CustomResourceDefinition with one version, v1, and the optional fields owner and size in .spec. The
// edits change the schema of .spec.
func Gadgets(group string, edits ...func(spec *apiextensionsv1.JSONSchemaProps)) *apiextensionsv1.CustomResourceDefinition {
	crd := CRD("gadgets", group, "Gadget")
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"owner": {Type: "string"}, "size": {Type: "integer"},
	}}
	for _, e := range edits {
		e(&spec)
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
	}
	return crd
}

// Requiring returns an edit that adds a required field.
func Requiring(name string) func(*apiextensionsv1.JSONSchemaProps) {
	return func(spec *apiextensionsv1.JSONSchemaProps) { spec.Required = append(spec.Required, name) }
}

// Optional returns an edit that adds an optional field.
func Optional(name string) func(*apiextensionsv1.JSONSchemaProps) {
	return func(spec *apiextensionsv1.JSONSchemaProps) {
		spec.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "new", MaxLength: ptr.To(int64(9))}
	}
}

// GadgetOwner is the owner of every Gadget. Remit must not disclose it.
const GadgetOwner = "s3cr3t-owner"

// Gadget creates a Gadget without a size, as the cluster administrator.
func (tn *Tenant) Gadget(group, version, namespace, name string) *unstructured.Unstructured {
	tn.T.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"owner": GadgetOwner}}}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: "Gadget"})
	obj.SetNamespace(namespace)
	obj.SetName(name)
	tn.Create(obj)
	return obj
}

// SetSize sets the size of a Gadget.
func (tn *Tenant) SetSize(gadget *unstructured.Unstructured) {
	tn.T.Helper()
	before := gadget.DeepCopy()
	require.NoError(tn.T, unstructured.SetNestedField(gadget.Object, int64(3), "spec", "size"))
	require.NoError(tn.T, tn.Cluster.Client.Patch(tn.T.Context(), gadget, client.MergeFrom(before)))
}
