package fbc

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

// maxProblems is how many malformed files are reported before a load gives up.
const maxProblems = 10

// Load reads all files below the root of fsys, except those that a .indexignore file names. The
// caller sets Key and Priority of the Snapshot before it publishes it.
func Load(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	return LoadInto(ctx, fsys, memory{})
}

// LoadInto is Load with the manifests left elsewhere than in memory.
func LoadInto(ctx context.Context, fsys fs.FS, contents Contents) (*catalog.Snapshot, error) {
	b := newBuilder(contents)
	visit := func(path string, meta *declcfg.Meta, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = b.add(meta)
		}
		return b.problem(path, err)
	}
	if err := declcfg.WalkMetasFS(ctx, checkedFS{newLimitedFS(fsys)}, visit); err != nil {
		return nil, err
	}
	return b.snapshot()
}

// FromFiles reads a catalog from files given by name.
func FromFiles(ctx context.Context, files map[string][]byte) (*catalog.Snapshot, error) {
	b := newBuilder(memory{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := b.problem(name, b.addFile(files[name])); err != nil {
			return nil, err
		}
	}
	return b.snapshot()
}

// FromConfig takes a catalog that is in memory already. The config is not kept.
func FromConfig(cfg *declcfg.DeclarativeConfig) (*catalog.Snapshot, error) {
	b := newBuilder(memory{})
	for i := range cfg.Packages {
		if err := b.addPackage(&cfg.Packages[i]); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Channels {
		if err := b.addChannel(&cfg.Channels[i]); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Bundles {
		if err := b.addBundle(&cfg.Bundles[i]); err != nil {
			return nil, err
		}
	}
	b.deprecations = append(b.deprecations, cfg.Deprecations...)
	return b.snapshot()
}

func (b *builder) addFile(data []byte) error {
	if len(data) > catalog.MaxFileBytes {
		return fmt.Errorf("file is larger than %d bytes", catalog.MaxFileBytes)
	}
	if err := manifest.CheckAliases(data); err != nil {
		return err
	}
	return declcfg.WalkMetasReader(bytes.NewReader(catalog.EndLine(data)), func(meta *declcfg.Meta, err error) error {
		if err != nil {
			return err
		}
		return b.add(meta)
	})
}

// problem notes what is wrong with a file, so that a user learns about several files at once. It
// returns an error only where the load should end.
func (b *builder) problem(path string, err error) error {
	if err == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf("file %q: %v", path, err))
	if len(b.problems) >= maxProblems {
		return b.joined()
	}
	return nil
}

func (b *builder) joined() error {
	if len(b.problems) == 0 {
		return nil
	}
	slices.Sort(b.problems)
	return fmt.Errorf("%s", strings.Join(slices.Compact(b.problems), "; "))
}
