package clusterextension

import (
	"context"
	"slices"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/preflight"
)

// changes returns the differences between the permissions of the installed version and those of the version to install. It
// returns none if the catalog does not contain the installed version, or the image of that version has not been read yet.
func (s *run) changes(ctx context.Context) []preflight.Change {
	from := s.installedBundle(ctx)
	if from == nil {
		return nil
	}
	return preflight.ChangesOf(from.CSV, s.bundle.CSV, s.ext.Spec.Namespace, s.rendered.Targets)
}

// installedBundle returns the content of the installed version if another version is to be installed.
func (s *run) installedBundle(ctx context.Context) *bundle.Bundle {
	is := s.ext.Status.Install
	if is == nil || s.resolved.Bundle == nil || s.isInstalled() {
		return nil
	}
	if known := s.memory.Get(s.key()).previous; known != nil && known.key == is.Bundle.Name {
		return known.bundle
	}
	pkg := s.resolved.Package
	if pkg.Bundles[is.Bundle.Name] == nil || pkg.Bundles[is.Bundle.Name].Version != is.Bundle.Version {
		return nil
	}
	names := pkg.ChannelNames()
	i := slices.IndexFunc(names, func(name string) bool { _, ok := pkg.Channels[name].Entries[is.Bundle.Name]; return ok })
	if i < 0 {
		return nil
	}
	raw, err := s.contentOf(ctx, names[i], pkg.Bundles[is.Bundle.Name])
	if err != nil {
		return nil // the catalog wakes the extension when the image has been read
	}
	parsed, err := bundle.ParseContent(raw)
	if err != nil {
		return nil
	}
	s.memory.Change(s.key(), func(m *remembered) { m.previous = &content{key: is.Bundle.Name, name: is.Bundle.Name, bundle: parsed} })
	return parsed
}
