package clusterextension

import (
	"context"
	"slices"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/preflight"
)

// changes returns the differences between the permissions of the installed version and those of the version to install. It
// returns none if the catalog does not contain the installed version, or the image of that version has not been read yet.
func (s *run) changes(ctx context.Context) ([]preflight.Change, error) {
	from, err := s.installedBundle(ctx)
	if from == nil || err != nil {
		return nil, err
	}
	return preflight.ChangesOf(from.CSV, s.bundle.CSV, s.ext.Spec.Namespace, s.rendered.Targets), nil
}

// installedBundle returns the content of the installed version if another version is to be installed. The error is an *errCrowded, or
// from reading the content that was kept.
func (s *run) installedBundle(ctx context.Context) (*bundle.Bundle, error) {
	is := s.ext.Status.Install
	if is == nil || s.resolved.Bundle == nil || s.isInstalled() {
		return nil, nil
	}
	if known := s.memory.Get(s.key()).previous; known != nil && known.key == is.Bundle.Name {
		return known.bundle, nil
	}
	was, err := s.earlierContent(ctx, is.Bundle)
	if was == nil && err == nil && s.memory.Get(s.key()).forgot { // otherwise, what the report contains would change
		was, _, err = s.keptContent(ctx, is.Bundle)
	}
	if err != nil {
		return nil, err
	}
	s.memory.Change(s.key(), func(m *remembered) {
		if m.forgot = false; was != nil {
			m.previous = was
			m.previous.key = is.Bundle.Name
		}
	})
	if was == nil {
		return nil, nil
	}
	return was.bundle, nil
}

// earlierContent returns the content of the installed version from the resolved catalog, or nil if the catalog does not have it or it
// cannot be read at this time; the catalog wakes the extension when an image has been read. The error is an *errCrowded.
func (s *run) earlierContent(ctx context.Context, installed olmv1.BundleMetadata) (*content, error) {
	pkg := s.resolved.Package
	if pkg.Bundles[installed.Name] == nil || pkg.Bundles[installed.Name].Version != installed.Version {
		return nil, nil
	}
	names := pkg.ChannelNames()
	i := slices.IndexFunc(names, func(name string) bool { _, ok := pkg.Channels[name].Entries[installed.Name]; return ok })
	if i < 0 {
		return nil, nil
	}
	key := "installed " + installed.Name
	if err := s.awaitTurn(key); err != nil {
		return nil, err
	}
	raw, err := s.contentOf(ctx, names[i], pkg.Bundles[installed.Name])
	if err != nil {
		return nil, nil //nolint:nilerr // the catalog wakes the extension
	}
	parsed, cost, err := s.parse(ctx, key, raw)
	switch {
	case isCrowded(err), err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, nil //nolint:nilerr // there is nothing to compare with
	}
	return &content{key: installed.Name, name: installed.Name, bundle: parsed, cost: cost}, nil
}
