package crd

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

type definition = apiextensionsv1.CustomResourceDefinition

// Decode reads a CustomResourceDefinition.
func Decode(obj *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &definition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, out); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %s: %w", obj.GetName(), err)
	}
	return out, nil
}

// Stricter names the versions that the live CustomResourceDefinition serves, that the wanted one goes on to serve,
// and in which it might refuse an object that the live one takes, in the order of the wanted one. Unless a change
// is known to be harmless it counts.
//
// Left out is a version whose objects a webhook may convert: what the next version's webhook makes of them is
// not known before it runs.
func Stricter(live, want *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	for _, v := range want.Spec.Versions {
		before := served(live, v.Name)
		if !v.Served || before == nil || converts(live, want, v.Name) {
			continue
		}
		if live.Spec.PreserveUnknownFields || !admitsAll(before.Schema, v.Schema) {
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

// converts says whether a webhook, of now or of then, may have a part in what is read in a version. It has none
// where all objects are stored in that version.
func converts(live, want *definition, version string) bool {
	return (byWebhook(live) || byWebhook(want)) && !slices.Equal(live.Status.StoredVersions, []string{version})
}

func byWebhook(d *definition) bool {
	return d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}
