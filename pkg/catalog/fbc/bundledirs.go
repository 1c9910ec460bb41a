package fbc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

const (
	dirManifests    = "manifests"
	fileAnnotations = "metadata/annotations.yaml"

	annotationPackage        = "operators.operatorframework.io.bundle.package.v1"
	annotationChannels       = "operators.operatorframework.io.bundle.channels.v1"
	annotationDefaultChannel = "operators.operatorframework.io.bundle.channel.default.v1"
)

// authored is the content of one bundle directory.
type authored struct {
	dir            string
	pkg            string
	channels       []string
	defaultChannel string
	content        *catalog.Content
	*manifest.Description
}

// FromBundles converts the bundle directories below the root of fsys to a file-based catalog. A bundle directory
// contains metadata/annotations.yaml and manifests/. The usual layouts are <package>/<version>/ and the root itself.
// Upgrade edges come from each ClusterServiceVersion. Edges to versions that are not in the directory are kept, so that a
// directory can contain only the newest versions. FromBundles fails if any bundle is invalid.
func FromBundles(ctx context.Context, fsys fs.FS) (*declcfg.DeclarativeConfig, error) {
	bundles, broken, err := readBundles(ctx, fsys)
	if err != nil {
		return nil, err
	}
	cfg, more := render(bundles)
	if broken = append(broken, more...); len(broken) > 0 {
		return nil, broken[0]
	}
	return cfg, nil
}

// readBundles reads the bundle directories below a root. broken describes the directories that cannot be used.
func readBundles(ctx context.Context, fsys fs.FS) (bundles []*authored, broken []error, err error) {
	limited := newLimitedFS(fsys)
	dirs, err := bundleDirs(limited)
	if err != nil {
		return nil, nil, err
	}
	if len(dirs) == 0 {
		return nil, nil, fmt.Errorf("no bundle found: no directory contains %s and %s/", fileAnnotations, dirManifests)
	}
	for _, dir := range dirs {
		b, err := readBundle(ctx, limited, dir)
		switch {
		case errors.As(err, new(wholeError)):
			return nil, nil, err
		case err != nil:
			broken = append(broken, fmt.Errorf("bundle directory %q: %w", dir, err))
		default:
			bundles = append(bundles, b)
		}
	}
	return bundles, broken, nil
}

func bundleDirs(fsys fs.FS) ([]string, error) {
	var dirs []string
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() || !modeOf(fsys, path.Join(p, fileAnnotations)).IsRegular() || !modeOf(fsys, path.Join(p, dirManifests)).IsDir() {
			return nil
		}
		if len(dirs) == catalog.MaxBundles {
			return fmt.Errorf("the catalog has more than %d bundles", catalog.MaxBundles)
		}
		dirs = append(dirs, p)
		return fs.SkipDir
	})
	return dirs, err
}

// modeOf returns the mode of a file. If the mode cannot be read, modeOf returns the mode of neither a regular file nor
// a directory.
func modeOf(fsys fs.FS, p string) fs.FileMode {
	info, err := fs.Stat(fsys, p)
	if err != nil {
		return fs.ModeIrregular
	}
	return info.Mode()
}

func readBundle(ctx context.Context, fsys fs.FS, dir string) (*authored, error) {
	b := &authored{dir: dir}
	if err := b.readAnnotations(fsys); err != nil {
		return nil, fmt.Errorf("%s: %w", fileAnnotations, err)
	}
	var err error
	if b.content, err = Manifests(ctx, fsys, dir, nil); err != nil {
		return nil, err
	}
	d, err := manifest.Describe(b.pkg, b.content)
	if err != nil {
		return nil, err
	}
	b.Description = d
	extra, err := readMetadataProperties(fsys, dir)
	if err != nil {
		return nil, err
	}
	b.Properties = property.Deduplicate(append(b.Properties, extra...))
	return b, nil
}

func (b *authored) readAnnotations(fsys fs.FS) error {
	var file struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := readYAML(fsys, path.Join(b.dir, fileAnnotations), &file); err != nil {
		return err
	}
	b.pkg = file.Annotations[annotationPackage]
	b.defaultChannel = strings.TrimSpace(file.Annotations[annotationDefaultChannel])
	for _, c := range strings.Split(file.Annotations[annotationChannels], ",") {
		if c = strings.TrimSpace(c); c != "" && !slices.Contains(b.channels, c) {
			b.channels = append(b.channels, c)
		}
	}
	switch {
	case b.pkg == "":
		return fmt.Errorf("annotation %s is required", annotationPackage)
	case len(b.channels) == 0:
		return fmt.Errorf("annotation %s is required", annotationChannels)
	}
	return nil
}

// IsCatalogFile reports whether a file is YAML or JSON, based on its name.
func IsCatalogFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name)))
}

// readFile reads a file of a bundle, of at most catalog.MaxContentBytes.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, catalog.MaxContentBytes+1))
	if err == nil && len(data) > catalog.MaxContentBytes {
		err = fmt.Errorf("file is larger than %d bytes", catalog.MaxContentBytes)
	}
	return data, err
}
