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

// maxProblems bounds the number of malformed files and packages that messages describe; the others are only counted.
const maxProblems = 10

// maxProblem bounds the length of the description of one problem, in bytes.
const maxProblem = 512

// Load calls Loader.Load with the zero Loader.
func Load(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	return Loader{}.Load(ctx, fsys)
}

// FromConfig builds a Snapshot from a catalog in memory. It does not retain the config. broken describes packages that
// cannot be used, by name.
func FromConfig(cfg *declcfg.DeclarativeConfig, broken map[string]error) (*catalog.Snapshot, error) {
	b := newBuilder(memory{})
	for name, err := range broken {
		b.exclude(name, err)
	}
	return b.config(cfg)
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
			b.exclude(cfg.Bundles[i].Package, err)
		}
	}
	b.deprecations = append(b.deprecations, cfg.Deprecations...)
	return b.snapshot()
}

// wholeError is an error that makes the whole catalog unusable.
type wholeError struct{ error }

func (e wholeError) Unwrap() error { return e.error }

func tooMuch(format string, args ...any) error { return wholeError{fmt.Errorf(format, args...)} }

// broken records a file that cannot be used, and excludes the packages of its objects, because an incomplete package
// could offer a version that its author has replaced. It returns an error only if the load must stop.
func (b *builder) broken(path string, err error, packages map[string]bool) error {
	if err == nil || errors.As(err, new(wholeError)) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread = true
	b.problems.add(fmt.Sprintf("file %q: %v", path, err))
	for name := range packages {
		b.markUnusable(name)
	}
	return b.excess()
}

// brokenPackage records an object of a file that makes its package unusable. The other packages of the file are not
// affected. It returns an error only if the load must stop.
func (b *builder) brokenPackage(path, pkg string, err error) error {
	if errors.As(err, new(wholeError)) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exclude(pkg, fmt.Errorf("file %q: %w", path, err))
	return b.excess()
}

// exclude records a problem that makes a package unusable. The package need not have been added yet.
func (b *builder) exclude(pkg string, err error) {
	b.problems.add(err.Error())
	b.markUnusable(clip(pkg))
}

// markUnusable excludes a package. If there is no memory for its name, which nothing else counts, excess returns an error from then on.
func (b *builder) markUnusable(name string) {
	if b.unusable[name] {
		return
	}
	if err := b.kept.Add(sizeOfName(name)); err != nil {
		b.over = err
		return
	}
	b.unusable[name] = true
}

// excess returns an error if there was no memory for the names of the unusable packages.
func (b *builder) excess() error {
	if b.over == nil {
		return nil
	}
	return wholeError{b.over}
}

// keepName reserves memory for the name of a package of a file.
func (b *builder) keepName(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.kept.Add(sizeOfName(name)); err != nil {
		return wholeError{err}
	}
	return nil
}

func sizeOfName(name string) int64 { return catalog.EntryOverhead + int64(len(name)) }

// warnings returns descriptions of the problems and of the packages that are excluded because of them.
func (b *builder) warnings(unusable []string) []string {
	out := b.problems.lines()
	if len(unusable) > 0 {
		out = append(out, "packages excluded because of these problems: "+strings.Join(abbreviate(unusable), ", "))
	}
	return out
}

// abbreviate quotes the first names, and adds the number of the others.
func abbreviate(all []string) []string {
	var out []string
	for _, name := range all[:min(len(all), maxProblems)] {
		out = append(out, fmt.Sprintf("%q", name))
	}
	if more := len(all) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// problems contains the first problems in alphabetical order, which is stable across loads, and the number of others.
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
