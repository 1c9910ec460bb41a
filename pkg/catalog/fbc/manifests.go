package fbc

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
)

// maxBundleCost limits the total estimated memory for decoding the files of a bundle.
const maxBundleCost = bundle.MaxTextCost

// Manifests reads the objects in the manifests/ directory of the bundle in a directory, in the order of file names. It waits for the memory
// that decoding each file needs.
func Manifests(ctx context.Context, fsys fs.FS, dir string, decoding *catalog.Decoding) (*catalog.Content, error) {
	dir = path.Join(dir, dirManifests)
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := manifestReader{decoding: decoding, files: make([]manifestFile, len(entries)), manifests: catalog.Manifests{Aliases: catalog.MaxContentBytes / 4}}
	var group errgroup.Group
	// Parsing YAML is slow, so use all processors.
	group.SetLimit(runtime.GOMAXPROCS(0))
	var size, cost int64
	for i, e := range entries {
		f := &r.files[i]
		f.name = e.Name()
		if e.IsDir() {
			continue
		}
		if !IsCatalogFile(e.Name()) {
			f.warnings = []string{"omitted, because its name does not end in .yaml, .yml or .json"}
			continue
		}
		data, err := readFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dirManifests, e.Name(), err)
		}
		// Limit the text before parsing it. catalog.ReadObjects limits the expansion of aliases.
		if size += int64(len(data)); size > 4*catalog.MaxContentBytes {
			return nil, tooLarge()
		}
		if cost += catalog.YAMLCost(data); cost > maxBundleCost {
			return nil, fmt.Errorf("the manifests of the bundle have too many values: decoding all of them would need more than %d MiB of memory", maxBundleCost>>20)
		}
		group.Go(func() error {
			if err := r.read(ctx, f, data); err != nil {
				return fmt.Errorf("%s/%s: %w", dirManifests, f.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return r.content(), nil
}

// manifestReader reads the files of one bundle concurrently.
type manifestReader struct {
	decoding  *catalog.Decoding
	manifests catalog.Manifests
	files     []manifestFile
	// size is the total size of the objects, in bytes, and count is their number.
	size, count atomic.Int64
}

type manifestFile struct {
	name     string
	objects  [][]byte
	warnings []string
}

func (r *manifestReader) read(ctx context.Context, f *manifestFile, data []byte) error {
	if err := catalog.CheckCost(data, catalog.DecodingMemory); err != nil {
		return err
	}
	end, err := r.decoding.Begin(ctx, catalog.YAMLCost(data))
	if err != nil {
		return err
	}
	defer end()
	f.warnings, err = r.manifests.ReadObjects(ctx, data, func(object []byte) error {
		if r.size.Add(int64(len(object))) > catalog.MaxContentBytes || r.count.Add(1) > catalog.MaxManifests {
			return tooLarge()
		}
		f.objects = append(f.objects, object)
		return nil
	})
	return err
}

// content concatenates the objects of all files and records their file names.
func (r *manifestReader) content() *catalog.Content {
	out := &catalog.Content{}
	for _, f := range r.files {
		for i := range f.objects {
			name := f.name
			if len(f.objects) > 1 {
				name = fmt.Sprintf("%s, document %d", name, i+1)
			}
			out.Names = append(out.Names, name)
		}
		out.Manifests = append(out.Manifests, f.objects...)
		for _, warning := range f.warnings {
			out.Warn(f.name, warning)
		}
	}
	return out
}

// ReadBundle parses the bundle at the root of a file system.
func ReadBundle(ctx context.Context, fsys fs.FS) (*bundle.Bundle, error) {
	content, err := Manifests(ctx, fsys, ".", nil)
	if err != nil {
		return nil, err
	}
	return bundle.ParseContent(ctx, content)
}

func tooLarge() error {
	return fmt.Errorf("the bundle has more than %d bytes of manifests or more than %d manifests", catalog.MaxContentBytes, catalog.MaxManifests)
}
