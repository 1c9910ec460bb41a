package grpc

import (
	"encoding/json"
	"fmt"

	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

// convertProperties returns a bundle's properties. Older registries send dedicated fields instead of properties. These fields are
// converted to properties, unless the bundle already has properties of the same type.
func convertProperties(in *api.Bundle) ([]catalog.Property, error) {
	var out []catalog.Property
	for _, p := range in.GetProperties() {
		if p.GetType() == "" || !json.Valid([]byte(p.GetValue())) {
			return nil, fmt.Errorf("property %q must have a type and a JSON value", clip(p.GetType()))
		}
		if p.GetType() != property.TypeBundleObject {
			out = append(out, catalog.Property{Type: p.GetType(), Value: json.RawMessage(p.GetValue())})
		}
	}
	older, err := olderProperties(in)
	if err != nil {
		return nil, err
	}
	stated := map[string]bool{}
	for _, p := range out {
		stated[p.Type] = true
	}
	for _, p := range older {
		if !stated[p.Type] {
			out = append(out, p)
		}
	}
	return out, nil
}

func olderProperties(in *api.Bundle) ([]catalog.Property, error) {
	var props []property.Property
	if in.GetVersion() != "" {
		props = append(props, property.MustBuildPackage(in.GetPackageName(), in.GetVersion()))
	}
	for _, g := range in.GetProvidedApis() {
		props = append(props, property.MustBuildGVK(g.GetGroup(), g.GetVersion(), g.GetKind()))
	}
	for _, g := range in.GetRequiredApis() {
		props = append(props, property.MustBuildGVKRequired(g.GetGroup(), g.GetVersion(), g.GetKind()))
	}
	for _, d := range in.GetDependencies() {
		p, err := manifest.Requirement(property.Property{Type: d.GetType(), Value: json.RawMessage(d.GetValue())})
		if err != nil {
			return nil, fmt.Errorf("dependency %q: %w", clip(d.GetType()), err)
		}
		props = append(props, p)
	}
	out := make([]catalog.Property, 0, len(props))
	for _, p := range property.Deduplicate(props) {
		out = append(out, catalog.Property{Type: p.Type, Value: p.Value})
	}
	return out, nil
}
