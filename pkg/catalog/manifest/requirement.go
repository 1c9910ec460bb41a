package manifest

import (
	"encoding/json"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Requirement converts a dependency from the form that authors write to the property that catalogs use.
func Requirement(d property.Property) (property.Property, error) {
	if err := d.Validate(); err != nil {
		return property.Property{}, err
	}
	switch d.Type {
	case property.TypePackage:
		var dep struct {
			PackageName string `json:"packageName"`
			Version     string `json:"version"`
		}
		if err := json.Unmarshal(d.Value, &dep); err != nil {
			return property.Property{}, err
		}
		return property.MustBuildPackageRequired(dep.PackageName, dep.Version), nil
	case property.TypeGVK:
		var dep property.GVK
		if err := json.Unmarshal(d.Value, &dep); err != nil {
			return property.Property{}, err
		}
		return property.MustBuildGVKRequired(dep.Group, dep.Version, dep.Kind), nil
	case catalog.TypeLabel:
		return property.Property{Type: catalog.TypeLabelRequired, Value: d.Value}, nil
	}
	return d, nil
}
