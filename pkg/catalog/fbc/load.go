package fbc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
)

// maxProblems is how many malformed files and packages are named; the rest is counted.
const maxProblems = 10

// maxProblem bounds the text of one, in bytes.
const maxProblem = 512

// Load is Loader.Load with the zero Loader.
func Load(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	return Loader{}.Load(ctx, fsys)
}

// FromConfig takes a catalog that is in memory already. The config is not kept.
func FromConfig(cfg *declcfg.DeclarativeConfig) (*catalog.Snapshot, error) {
	return newBuilder(memory{}).config(cfg)
}

func (b *builder) config(cfg *declcfg.DeclarativeConfig) (*catalog.Snapshot, error) {
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
		err := b.addBundle(&cfg.Bundles[i])
		if errors.As(err, new(wholeError)) {
			return nil, err
		}
		if err != nil {
			b.lose(cfg.Bundles[i].Package, err)
		}
	}
	b.deprecations = append(b.deprecations, cfg.Deprecations...)
	return b.snapshot()
}

// wholeError is an error about the catalog as a whole: none of it is used.
type wholeError struct{ error }

func (e wholeError) Unwrap() error { return e.error }

func tooMuch(format string, args ...any) error { return wholeError{fmt.Errorf(format, args...)} }

// broken notes a file that cannot be used, with the packages that it has a part of: half a package might install what its
// author has replaced. It returns an error only where the load should end.
func (b *builder) broken(path string, err error, packages map[string]bool) error {
	if err == nil || errors.As(err, new(wholeError)) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems.add(fmt.Sprintf("file %q: %v", path, err))
	for name := range packages {
		b.lost[name] = true
	}
	return nil
}

// lose notes what is wrong with a package as a whole, of which nothing is used. The package may come later.
func (b *builder) lose(pkg string, err error) {
	b.problems.add(err.Error())
	b.lost[clip(pkg)] = true
}

// warnings are the problems, and which packages they cost.
func (b *builder) warnings(lost []string) []string {
	out := b.problems.lines()
	if len(lost) > 0 {
		out = append(out, "not offered for that: package "+strings.Join(some(lost), ", "))
	}
	return out
}

func some(all []string) []string {
	if len(all) <= maxProblems {
		return all
	}
	return append(all[:maxProblems:maxProblems], fmt.Sprintf("and %d more", len(all)-maxProblems))
}

// problems are the first in the order of their texts, which is the same from one load to the next, and how many more
// there are.
type problems struct {
	first []string
	more  int
}

func (p *problems) add(text string) {
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	at, found := slices.BinarySearch(p.first, text)
	if found {
		return
	}
	if p.first = slices.Insert(p.first, at, text); len(p.first) > maxProblems {
		p.first = p.first[:maxProblems]
		p.more++
	}
}

func (p *problems) empty() bool { return len(p.first) == 0 }

func (p *problems) lines() []string {
	if p.more == 0 {
		return slices.Clone(p.first)
	}
	return append(slices.Clone(p.first), fmt.Sprintf("and %d more", p.more))
}
