package fbc

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
)

// maxProblems is how many malformed files are reported before a load gives up.
const maxProblems = 10

// Load is Loader.Load with the zero Loader.
func Load(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	return Loader{}.Load(ctx, fsys)
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
