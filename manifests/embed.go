package manifests

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The install profiles.
const (
	ProfileBounded = "bounded"
	ProfileCompat  = "compat"
)

//go:embed crds base policy bounded compat
var files embed.FS

// Profiles lists the install profiles, the default first.
func Profiles() []string {
	return []string{ProfileBounded, ProfileCompat}
}

// Render returns the objects of a profile in the order in which they can be applied: namespaces and
// CRDs before the objects that need them.
func Render(profile string) ([]*unstructured.Unstructured, error) {
	if !slices.Contains(Profiles(), profile) {
		return nil, fmt.Errorf("unknown profile %q: must be one of %q", profile, Profiles())
	}
	memory, err := inMemory(files)
	if err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // the order of the profile's sortOptions
	rendered, err := krusty.MakeKustomizer(options).Run(memory, profile)
	if err != nil {
		return nil, fmt.Errorf("render profile %q: %w", profile, err)
	}
	return objects(rendered)
}

// RenderDirectory returns the objects of a kustomization on disk, as an overlay of a profile.
func RenderDirectory(path string) ([]*unstructured.Unstructured, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	rendered, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	return objects(rendered)
}

// inMemory copies the embedded files to a file system that kustomize can read.
func inMemory(source fs.FS) (filesys.FileSystem, error) {
	memory := filesys.MakeFsInMemory()
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		return memory.WriteFile(path, data)
	})
	if err != nil {
		return nil, fmt.Errorf("read embedded manifests: %w", err)
	}
	return memory, nil
}

func objects(rendered resmap.ResMap) ([]*unstructured.Unstructured, error) {
	objs := make([]*unstructured.Unstructured, 0, rendered.Size())
	for _, res := range rendered.Resources() {
		// Convert through JSON, because unstructured objects need int64 and kustomize's map has int.
		data, err := res.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", res.CurId(), err)
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("read %s: %w", res.CurId(), err)
		}
		objs = append(objs, obj)
	}
	return objs, nil
}
