package fbc

import (
	"encoding/json"
	"errors"
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

	// propertyMalformedDependencies marks a bundle whose dependencies file cannot be read. The file is otherwise treated as
	// missing, as in the published catalogs of OLM v0: one author's mistake must not disable a directory of bundles.
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
		p, err := manifest.Requirement(d)
		if err != nil {
			return nil, fmt.Errorf("dependency %d: %w", i+1, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// readYAML decodes a YAML file into v. If the file is missing, v is unchanged.
func readYAML(fsys fs.FS, name string, v any) error {
	data, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
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
