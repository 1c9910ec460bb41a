package env

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"testing/fstest"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// File names of the manifests in the sample's bundle.
const (
	FileCSV       = "sample-operator.clusterserviceversion.yaml"
	FileCRD       = "sample.remit.dev_greetings.yaml"
	FileConfigMap = "sample-operator-defaults_v1_configmap.yaml"
	FileService   = "sample-operator-health_v1_service.yaml"
)

// Variant is a modifiable copy of the sample's bundle. It maps file names to manifests.
type Variant map[string]*unstructured.Unstructured

// NewVariant reads the sample's bundle.
func NewVariant() (Variant, error) {
	files, err := fs.Glob(bundle.FS(), "manifests/*")
	if err != nil {
		return nil, err
	}
	v := Variant{}
	for _, f := range files {
		raw, err := fs.ReadFile(bundle.FS(), f)
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &obj.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		v[path.Base(f)] = obj
	}
	return v, nil
}

// Add adds a manifest.
func (v Variant) Add(file, manifest string) {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		panic(fmt.Sprintf("manifest %s: %v", file, err)) // the text comes from a test
	}
	v[file] = obj
}

// Set sets a field of the ClusterServiceVersion. A nil value removes it.
func (v Variant) Set(value any, fields ...string) {
	csv := v[FileCSV].Object
	if value == nil {
		unstructured.RemoveNestedField(csv, fields...)
		return
	}
	if err := unstructured.SetNestedField(csv, value, fields...); err != nil {
		panic(fmt.Sprintf("ClusterServiceVersion: %v", err)) // the path comes from a test
	}
}

// SetPermissions makes the ClusterServiceVersion request one rule for one ServiceAccount.
func (v Variant) SetPermissions(serviceAccount string, rule map[string]any) {
	v.Set([]any{map[string]any{"serviceAccountName": serviceAccount, "rules": []any{rule}}},
		"spec", "install", "spec", "permissions")
}

// SetGroup changes the API group of the bundle's CustomResourceDefinition, which becomes greetings.<group>. The operator
// does not use this group.
func (v Variant) SetGroup(group string) {
	name := "greetings." + group
	v[FileCRD].SetName(name)
	if err := unstructured.SetNestedField(v[FileCRD].Object, group, "spec", "group"); err != nil {
		panic(fmt.Sprintf("CustomResourceDefinition: %v", err)) // the sample's CSV has a spec
	}
	v.Set([]any{map[string]any{"name": name, "version": "v1", "kind": "Greeting"}}, "spec", "customresourcedefinitions", "owned")
}

// SetImage changes the image of the operator's container.
func (v Variant) SetImage(image string) {
	csv, err := json.Marshal(v[FileCSV].Object)
	if err == nil {
		v[FileCSV].Object = nil
		err = json.Unmarshal(bytes.ReplaceAll(csv, []byte(bundle.OperatorImage), []byte(image)), &v[FileCSV].Object)
	}
	if err != nil {
		panic(fmt.Sprintf("ClusterServiceVersion: %v", err)) // the object was decoded from YAML
	}
}

// Write writes the bundle to a directory.
func (v Variant) Write(dir string) error {
	files, err := v.files()
	if err != nil {
		return err
	}
	return os.CopyFS(dir, files)
}

// FBC returns a file-based catalog, as JSON, with the bundle as the only version of a package.
func (v Variant) FBC(pkg string) (string, error) {
	files, err := v.files()
	if err != nil {
		return "", err
	}
	const annotations = "metadata/annotations.yaml"
	files[annotations].Data = bytes.ReplaceAll(files[annotations].Data, []byte("package.v1: "+bundle.Package), []byte("package.v1: "+pkg))
	return toFBC(files, func(*declcfg.Bundle) {})
}

func (v Variant) files() (fstest.MapFS, error) {
	out := fstest.MapFS{}
	err := fs.WalkDir(bundle.FS(), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(bundle.FS(), file)
		out[file] = &fstest.MapFile{Data: data, Mode: 0o600}
		return err
	})
	if err != nil {
		return nil, err
	}
	for file, obj := range v {
		data, err := yaml.Marshal(obj.Object)
		if err != nil {
			return nil, err
		}
		out["manifests/"+file] = &fstest.MapFile{Data: data, Mode: 0o600}
	}
	return out, nil
}

// SampleFBC returns a file-based catalog, as JSON, with the sample's bundle inline.
func SampleFBC() (string, error) { return toFBC(bundle.FS(), func(*declcfg.Bundle) {}) }

// SampleFBCByImage returns a file-based catalog, as JSON, that refers to the sample's bundle in an image.
func SampleFBCByImage(image string) (string, error) {
	return toFBC(bundle.FS(), func(b *declcfg.Bundle) {
		b.Image = image
		b.Properties = slices.DeleteFunc(b.Properties, func(p property.Property) bool { return p.Type == property.TypeBundleObject })
	})
}

// toFBC returns a file-based catalog, as JSON, with a bundle inline, after a change.
func toFBC(content fs.FS, change func(*declcfg.Bundle)) (string, error) {
	cfg, err := fbc.FromBundles(context.Background(), content)
	if err != nil {
		return "", err
	}
	for i := range cfg.Bundles {
		change(&cfg.Bundles[i])
	}
	var out bytes.Buffer
	if err := declcfg.WriteJSON(*cfg, &out); err != nil {
		return "", err
	}
	return out.String(), nil
}
