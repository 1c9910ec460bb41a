package fbc

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/operator-framework/operator-registry/alpha/property"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

const (
	fileDependencies = "metadata/dependencies.yaml"
	fileProperties   = "metadata/properties.yaml"

	// typeLabel is provided by one operator and, as a dependency, required by another (contract 1.3).
	typeLabel         = "olm.label"
	typeLabelRequired = "olm.label.required"

	// propertyMalformedDependencies marks a bundle whose dependencies file cannot be read. The file is otherwise treated as
	// missing, as in the published catalogs of OLM v0: one author's mistake must not disable a folder of bundles.
	propertyMalformedDependencies = "remit.dev/malformed-dependencies"
)

// readMetadataProperties returns the properties from metadata/dependencies.yaml and metadata/properties.yaml.
func readMetadataProperties(fsys fs.FS, dir string) ([]property.Property, error) {
	out, err := readProperties(fsys, path.Join(dir, fileProperties))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fileProperties, err)
	}
	dependencies, err := readDependencies(fsys, path.Join(dir, fileDependencies))
	if err != nil {
		text, _ := json.Marshal(err.Error())
		return append(out, property.Property{Type: propertyMalformedDependencies, Value: text}), nil
	}
	return append(out, dependencies...), nil
}

func readProperties(fsys fs.FS, name string) ([]property.Property, error) {
	var file struct {
		Properties []property.Property `json:"properties"`
	}
	if err := readYAML(fsys, name, &file); err != nil {
		return nil, err
	}
	for _, p := range file.Properties {
		if err := p.Validate(); err != nil {
			return nil, err
		}
	}
	return file.Properties, nil
}

func readDependencies(fsys fs.FS, name string) ([]property.Property, error) {
	var file struct {
		Dependencies []property.Property `json:"dependencies"`
	}
	if err := readYAML(fsys, name, &file); err != nil {
		return nil, err
	}
	var out []property.Property
	for i, d := range file.Dependencies {
		p, err := requirement(d)
		if err != nil {
			return nil, fmt.Errorf("dependency %d: %w", i+1, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// requirement converts a dependency, as authors write it, to the property that a catalog contains.
func requirement(d property.Property) (property.Property, error) {
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
	case typeLabel:
		return property.Property{Type: typeLabelRequired, Value: d.Value}, nil
	}
	return d, nil
}

// readYAML does not change v if the file is missing.
func readYAML(fsys fs.FS, name string, v any) error {
	data, err := readFile(fsys, name)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := manifest.CheckAliases(data); err != nil {
		return err
	}
	return yaml.Unmarshal(data, v)
}
