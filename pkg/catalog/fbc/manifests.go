package fbc

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

// Manifests reads the objects in the files of a bundle directory's manifests/, in the order of their names.
func Manifests(fsys fs.FS, bundle string) ([][]byte, error) {
	dir := path.Join(bundle, dirManifests)
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	size := 0
	for _, e := range entries {
		if e.IsDir() || !IsCatalogFile(e.Name()) {
			continue
		}
		data, err := readFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dirManifests, e.Name(), err)
		}
		docs, err := manifest.Split(data)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dirManifests, e.Name(), err)
		}
		for _, doc := range docs {
			size += len(doc)
		}
		if out = append(out, docs...); size > catalog.MaxContentBytes || len(out) > catalog.MaxManifests {
			return nil, fmt.Errorf("more than %d bytes or %d manifests", catalog.MaxContentBytes, catalog.MaxManifests)
		}
	}
	return out, nil
}
