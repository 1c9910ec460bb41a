package manifests

import (
	"bytes"
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

//go:embed crds base policy bounded compat extensions packages olmconfig remover any-account
var files embed.FS

// Profiles lists the install profiles, the default first.
func Profiles() []string {
	return []string{ProfileBounded, ProfileCompat}
}

// withExtensions is the prefix of the directories of the profiles with ClusterExtensions, which exist only in memory.
const withExtensions = "with-extensions-"

// Render returns the objects of a profile in the order in which they can be applied: namespaces and
// CRDs before the objects that need them.
func Render(profile string) ([]*unstructured.Unstructured, error) {
	return renderProfile(profile, profile)
}

// RenderWithExtensions is like Render, but includes ClusterCatalogs and ClusterExtensions.
func RenderWithExtensions(profile string) ([]*unstructured.Unstructured, error) {
	return renderProfile(profile, withExtensions+profile)
}

func renderProfile(profile, directory string) ([]*unstructured.Unstructured, error) {
	if !slices.Contains(Profiles(), profile) {
		return nil, fmt.Errorf("unknown profile %q: must be one of %q", profile, Profiles())
	}
	objs, err := renderEmbedded(directory)
	if err != nil {
		return nil, fmt.Errorf("render profile %q: %w", profile, err)
	}
	return objs, nil
}

// extensions returns the directory with the part of a profile that concerns ClusterExtensions.
func extensions(profile string) string {
	if profile == ProfileCompat {
		return "compat/extensions"
	}
	return "extensions"
}

// addOverlays writes a kustomization for each profile with ClusterExtensions. It has the same order as the profile.
func addOverlays(memory filesys.FileSystem) error {
	for _, profile := range Profiles() {
		text, err := memory.ReadFile(profile + "/kustomization.yaml")
		if err != nil {
			return err
		}
		_, order, ok := bytes.Cut(text, []byte("\nsortOptions:"))
		if !ok {
			return fmt.Errorf("profile %q has no sortOptions", profile)
		}
		overlay := fmt.Sprintf("resources:\n- ../%s\n- ../%s\nsortOptions:%s", profile, extensions(profile), order)
		if err := memory.WriteFile(withExtensions+profile+"/kustomization.yaml", []byte(overlay)); err != nil {
			return err
		}
	}
	return nil
}

// RenderPackages returns the objects for PackageManifests, which are applied after those of a profile.
func RenderPackages() ([]*unstructured.Unstructured, error) {
	objs, err := renderEmbedded("packages")
	if err != nil {
		return nil, fmt.Errorf("render packages: %w", err)
	}
	return objs, nil
}

// RenderOLMConfig returns the OLMConfig, which is applied after the objects of a profile.
func RenderOLMConfig() ([]*unstructured.Unstructured, error) {
	objs, err := renderEmbedded("olmconfig")
	if err != nil {
		return nil, fmt.Errorf("render the OLMConfig: %w", err)
	}
	return objs, nil
}

// RenderAnyAccount returns a policy for Kubernetes 1.36 and later, which is applied after the objects of the profile.
func RenderAnyAccount(profile string) ([]*unstructured.Unstructured, error) {
	objs, err := renderEmbedded("any-account/" + profile)
	if err != nil {
		return nil, fmt.Errorf("render the policy for any account: %w", err)
	}
	return objs, nil
}

// RenderRemover returns the objects of the optional identity that removes permissions that exceed the account. They are applied after
// those of a profile.
func RenderRemover() ([]*unstructured.Unstructured, error) {
	objs, err := renderEmbedded("remover")
	if err != nil {
		return nil, fmt.Errorf("render remover: %w", err)
	}
	return objs, nil
}

// ExtensionCRDs returns the CustomResourceDefinitions of ClusterExtensions and ClusterCatalogs.
func ExtensionCRDs() ([]*unstructured.Unstructured, error) {
	objs, err := renderEmbedded("extensions/crds")
	if err != nil {
		return nil, fmt.Errorf("render the CRDs of extensions: %w", err)
	}
	return objs, nil
}

// renderEmbedded returns the objects of an embedded kustomization.
func renderEmbedded(path string) ([]*unstructured.Unstructured, error) {
	memory, err := inMemory(files)
	if err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // keep the order that the profile's sortOptions define
	rendered, err := krusty.MakeKustomizer(options).Run(memory, path)
	if err != nil {
		return nil, err
	}
	return objects(rendered)
}

// RenderDirectory returns the objects of a kustomization on disk, such as an overlay of a profile.
func RenderDirectory(path string) ([]*unstructured.Unstructured, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	rendered, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	return objects(rendered)
}

// inMemory copies the embedded files to a file system that kustomize can read, and adds the overlays.
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
	if err == nil {
		err = addOverlays(memory)
	}
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
