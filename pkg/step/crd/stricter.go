package crd

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

type definition = apiextensionsv1.CustomResourceDefinition

// Decode converts an object to a CustomResourceDefinition.
func Decode(obj *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &definition{}
	return out, apply.Decode(obj, out)
}

// Defines reports whether a CustomResourceDefinition serves a kind.
func Defines(d *apiextensionsv1.CustomResourceDefinition, gvk schema.GroupVersionKind) bool {
	return d.Spec.Group == gvk.Group && d.Spec.Names.Kind == gvk.Kind && apihelpers.HasServedCRDVersion(d, gvk.Version)
}

// KindOf returns the kind of the objects of a CustomResourceDefinition in a version, for requests with that mapper. ok is false if the API
// server does not serve them. The spec alone does not tell this: the API server stores a definition whose kind another one of the same group
// has, but does not serve it, and requests for the kind concern the objects of the other one.
func KindOf(mapper meta.RESTMapper, d *apiextensionsv1.CustomResourceDefinition, version string) (gvk schema.GroupVersionKind, ok bool, err error) {
	gvk = schema.GroupVersionKind{Group: d.Spec.Group, Version: version, Kind: d.Spec.Names.Kind}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return gvk, false, nil
	case err != nil:
		return gvk, false, fmt.Errorf("find the resource of kind %s: %w", gvk.Kind, err)
	}
	return gvk, mapping.Resource.Resource == d.Spec.Names.Plural, nil
}

// Stricter returns the versions that both the live and the wanted CustomResourceDefinition serve and in which the
// wanted one might reject an object that the live one accepts, in the order of the wanted CustomResourceDefinition. A
// version is returned unless all changes to its schema are known to be harmless.
//
// Versions whose objects a webhook may convert are omitted: the results of the next version's webhook are unknown
// until it runs.
func Stricter(live, want *apiextensionsv1.CustomResourceDefinition) []string {
	return stricter(live, want, func(version string) bool { return !converts(live, want, version) })
}

// StricterButConverted returns the versions that Stricter omits because a webhook may convert their objects.
func StricterButConverted(live, want *apiextensionsv1.CustomResourceDefinition) []string {
	return stricter(live, want, func(version string) bool { return converts(live, want, version) })
}

// stricter returns the versions for which match returns true, that both CustomResourceDefinitions serve, and in which
// the wanted one might reject an object that the live one accepts.
func stricter(live, want *definition, match func(version string) bool) []string {
	var out []string
	for _, v := range want.Spec.Versions {
		before := served(live, v.Name)
		if v.Served && before != nil && match(v.Name) && (live.Spec.PreserveUnknownFields || !admitsAll(before.Schema, v.Schema)) {
			out = append(out, v.Name)
		}
	}
	return out
}

func served(d *definition, version string) *apiextensionsv1.CustomResourceDefinitionVersion {
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Name == version })
	if i < 0 {
		return nil
	}
	return &d.Spec.Versions[i]
}

// converts reports whether a webhook, live or wanted, may convert the objects of a version. No webhook can do so if all
// objects are stored in that version.
func converts(live, want *definition, version string) bool {
	return (byWebhook(live) || byWebhook(want)) && !slices.Equal(live.Status.StoredVersions, []string{version})
}

func byWebhook(d *definition) bool {
	return d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}
