package fbc

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

// Manifests reads the objects in the manifests/ directory of a bundle, in the order of file names. It waits for the memory
// that decoding each file needs.
func Manifests(ctx context.Context, fsys fs.FS, bundle string, decoding *catalog.Decoding) (*catalog.Content, error) {
	dir := path.Join(bundle, dirManifests)
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	objects := make([][][]byte, len(entries))
	var group errgroup.Group
	// Parsing YAML is slow, so use all processors.
	group.SetLimit(runtime.GOMAXPROCS(0))
	size := int64(0)
	for i, e := range entries {
		if e.IsDir() || !IsCatalogFile(e.Name()) {
			continue
		}
		data, err := readFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dirManifests, e.Name(), err)
		}
		// Limit the text before parsing it. manifest.Split limits the expansion of aliases.
		if size += int64(len(data)); size > 4*catalog.MaxContentBytes {
			return nil, tooLarge()
		}
		group.Go(func() (err error) {
			if objects[i], err = split(ctx, data, decoding); err != nil {
				err = fmt.Errorf("%s/%s: %w", dirManifests, e.Name(), err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	files := make([]string, len(entries))
	for i, e := range entries {
		files[i] = e.Name()
	}
	return joined(files, objects)
}

func split(ctx context.Context, data []byte, decoding *catalog.Decoding) ([][]byte, error) {
	if err := catalog.CheckCost(data, catalog.DecodingMemory); err != nil {
		return nil, err
	}
	end, err := decoding.Begin(ctx, catalog.YAMLCost(data))
	if err != nil {
		return nil, err
	}
	defer end()
	return manifest.Split(data)
}

// joined concatenates the objects of all files and records their file names.
func joined(files []string, objects [][][]byte) (*catalog.Content, error) {
	out := &catalog.Content{}
	size := 0
	for i, docs := range objects {
		for j, doc := range docs {
			size += len(doc)
			name := files[i]
			if len(docs) > 1 {
				name = fmt.Sprintf("%s, document %d", name, j+1)
			}
			out.Names = append(out.Names, name)
		}
		if out.Manifests = append(out.Manifests, docs...); size > catalog.MaxContentBytes || len(out.Manifests) > catalog.MaxManifests {
			return nil, tooLarge()
		}
	}
	return out, nil
}

func tooLarge() error {
	return fmt.Errorf("the bundle has more than %d bytes of manifests or more than %d manifests", catalog.MaxContentBytes, catalog.MaxManifests)
}
