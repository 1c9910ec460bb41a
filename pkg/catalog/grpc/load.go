package grpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// Load lists a registry's bundles. kept limits the memory that the Snapshot uses; a Max of zero means the limit of
// catalog.GlobalDecoding. The caller sets Key and Priority of the Snapshot before publishing it. The Snapshot's Reader continues
// to use the client. Waits for turns of other namespaces count as time only if they take longer than StreamTimeout.
func Load(ctx context.Context, client RegistryClient, kept catalog.Kept) (*catalog.Snapshot, error) {
	ctx, _, cancel := turns.WithTimeout(ctx, StreamTimeout, StreamTimeout, context.DeadlineExceeded)
	defer cancel()
	snap, err := load(ctx, client, newLoader(kept))
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return snap, err
}

func load(ctx context.Context, client RegistryClient, l *loader) (*catalog.Snapshot, error) {
	if err := client.ListBundles(ctx, l.add); err != nil {
		return nil, fmt.Errorf("list bundles: %w", err)
	}
	if len(l.packages) == 0 {
		return nil, errors.New("the registry has no bundles")
	}
	for _, name := range slices.Sorted(maps.Keys(l.packages)) {
		if err := l.complete(ctx, client, name); err != nil {
			return nil, fmt.Errorf("package %q: %w", name, err)
		}
	}
	return &catalog.Snapshot{
		Digest:   catalog.Digest(l.packages, l.digest),
		Packages: l.packages,
		Reader:   &Reader{Client: client},
	}, nil
}

type bundleKey struct{ pkg, name string }

type loader struct {
	packages map[string]*catalog.Package
	// contents contains the digests of manifests in the stream; the manifests themselves are not retained.
	contents                 map[bundleKey]string
	bytes, entries, channels int
	bundles                  int

	// kept estimates the retained memory.
	kept catalog.Kept
}

func newLoader(kept catalog.Kept) *loader {
	kept.Max = cmp.Or(kept.Max, catalog.GlobalDecoding().Kept)
	return &loader{packages: map[string]*catalog.Package{}, contents: map[bundleKey]string{}, kept: kept}
}

func (l *loader) digest(pkg, bundle string) string { return l.contents[bundleKey{pkg, bundle}] }

// add adds one bundle of one channel. A bundle in several channels is received several times.
func (l *loader) add(in *api.Bundle) error {
	if err := l.count(in); err != nil {
		return err
	}
	for _, name := range []string{in.GetPackageName(), in.GetChannelName(), in.GetCsvName()} {
		if err := catalog.CheckName(name); err != nil {
			return fmt.Errorf("package %q, channel %q, bundle %q: %w",
				clip(in.GetPackageName()), clip(in.GetChannelName()), clip(in.GetCsvName()), err)
		}
	}
	pkg, err := l.pkg(in.GetPackageName())
	if err != nil {
		return err
	}
	channel, err := l.channel(pkg, in.GetChannelName())
	if err != nil {
		return err
	}
	if _, ok := channel.Entries[in.GetCsvName()]; ok {
		return fmt.Errorf("package %q, channel %q: duplicate entry %q", pkg.Name, channel.Name, in.GetCsvName())
	}
	entry := catalog.Entry{
		Name:      in.GetCsvName(),
		Replaces:  in.GetReplaces(),
		Skips:     in.GetSkips(),
		SkipRange: in.GetSkipRange(),
	}
	if err := l.kept.Add(entry.Size()); err != nil {
		return err
	}
	channel.Entries[entry.Name] = entry
	if err := l.addBundle(pkg, in); err != nil {
		return fmt.Errorf("package %q, bundle %q: %w", pkg.Name, in.GetCsvName(), err)
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), catalog.MaxNameBytes)] }

func (l *loader) count(in *api.Bundle) error {
	if l.bytes += proto.Size(in); l.bytes > catalog.MaxCatalogBytes {
		return fmt.Errorf("the registry sent more than %d bytes", catalog.MaxCatalogBytes)
	}
	if l.entries += 1 + len(in.GetSkips()); l.entries > catalog.MaxEntries {
		return fmt.Errorf("the registry sent more than %d channel entries", catalog.MaxEntries)
	}
	return nil
}

func (l *loader) pkg(name string) (*catalog.Package, error) {
	if pkg, ok := l.packages[name]; ok {
		return pkg, nil
	}
	if len(l.packages) == catalog.MaxPackages {
		return nil, fmt.Errorf("the registry sent more than %d packages", catalog.MaxPackages)
	}
	if err := l.kept.Add(catalog.PackageOverhead + int64(len(name))); err != nil {
		return nil, err
	}
	pkg := &catalog.Package{Name: name, Channels: map[string]*catalog.Channel{}, Bundles: map[string]*catalog.Bundle{}}
	l.packages[name] = pkg
	return pkg, nil
}

func (l *loader) channel(pkg *catalog.Package, name string) (*catalog.Channel, error) {
	if c, ok := pkg.Channels[name]; ok {
		return c, nil
	}
	if l.channels++; l.channels > catalog.MaxChannels {
		return nil, fmt.Errorf("the registry sent more than %d channels", catalog.MaxChannels)
	}
	if err := l.kept.Add(catalog.ChannelOverhead + int64(len(name))); err != nil {
		return nil, err
	}
	c := &catalog.Channel{Name: name, Entries: map[string]catalog.Entry{}}
	pkg.Channels[name] = c
	return c, nil
}

func (l *loader) addBundle(pkg *catalog.Package, in *api.Bundle) error {
	if _, ok := pkg.Bundles[in.GetCsvName()]; ok {
		return nil
	}
	if l.bundles++; l.bundles > catalog.MaxBundles {
		return fmt.Errorf("the registry sent more than %d bundles", catalog.MaxBundles)
	}
	props, err := convertProperties(in)
	if err != nil {
		return err
	}
	bundle := &catalog.Bundle{
		Name:        in.GetCsvName(),
		Package:     pkg.Name,
		Version:     in.GetVersion(),
		Image:       in.GetBundlePath(),
		Properties:  props,
		Deprecation: lineOf(in.GetDeprecation()),
	}
	if err := l.kept.Add(bundle.Size()); err != nil {
		return err
	}
	pkg.Bundles[bundle.Name] = bundle
	l.contents[bundleKey{pkg.Name, in.GetCsvName()}] = contentDigest(in)
	return nil
}

// complete requests the package's details, which the list of bundles does not contain, and validates the package.
func (l *loader) complete(ctx context.Context, client RegistryClient, name string) error {
	in, err := client.GetPackage(ctx, name)
	if err != nil {
		return err
	}
	pkg := l.packages[name]
	if err := l.kept.Add(int64(len(in.GetDefaultChannelName()) + len(in.GetDeprecation().GetMessage()))); err != nil {
		return err
	}
	pkg.DefaultChannel = in.GetDefaultChannelName()
	pkg.Deprecation = lineOf(in.GetDeprecation())
	for _, c := range in.GetChannels() {
		if known, ok := pkg.Channels[c.GetName()]; ok {
			if err := l.kept.Add(int64(len(c.GetDeprecation().GetMessage()))); err != nil {
				return err
			}
			known.Deprecation = lineOf(c.GetDeprecation())
		}
	}
	return pkg.Validate()
}

// lineOf returns the message of a deprecation. It becomes part of conditions, so it must be one line (security model, rule 9).
func lineOf(d *api.Deprecation) string { return string(message.Line(d.GetMessage())) }

func contentDigest(in *api.Bundle) string {
	if in.GetCsvJson() == "" && len(in.GetObject()) == 0 {
		return ""
	}
	h := sha256.New()
	for _, text := range append([]string{in.GetCsvJson()}, in.GetObject()...) {
		fmt.Fprintf(h, "%d\n%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}
