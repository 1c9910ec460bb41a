package resolve

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/corpus"
)

// realCatalogs returns a catalog with all packages of the corpus that are published as a catalog, and one with all of its bundles.
func realCatalogs(t *testing.T) map[string]*catalog.Snapshot {
	t.Helper()
	published, err := fbc.Load(t.Context(), os.DirFS(corpus.Dir(t, "catalogs", "v4.20")))
	require.NoError(t, err)
	cfg, err := fbc.FromBundles(t.Context(), os.DirFS(corpus.Dir(t, "bundles")))
	require.NoError(t, err)
	bundles, err := fbc.FromConfig(cfg, nil)
	require.NoError(t, err)
	return map[string]*catalog.Snapshot{"published": published, "bundles": bundles}
}

// Upgrades from each version of each package lead to newer versions until there are none, and every version can be
// pinned.
func TestUpgradesRealPackages(t *testing.T) {
	for name, snapshot := range realCatalogs(t) {
		all := catalogs(Catalog{Name: name, Snapshot: snapshot})
		steps := 0
		for _, pkg := range snapshot.PackageNames() {
			latest, err := Resolve(all, Request{Package: pkg})
			require.NoError(t, err, pkg)
			for _, b := range snapshot.Packages[pkg].Bundles {
				pinned, err := Resolve(all, Request{Package: pkg, Versions: b.Version})
				require.NoError(t, err, "%s %s", pkg, b.Version)
				require.Equal(t, b.Version, pinned.Bundle.Version)

				at := &Installed{Name: b.Name, Version: b.Version}
				jumped, err := Resolve(all, Request{Package: pkg, Installed: at, Policy: SelfCertified})
				require.NoError(t, err)
				if !latest.Deprecations.Any() && !jumped.Deprecations.Any() {
					require.Equal(t, latest.Bundle.Version, jumped.Bundle.Version, "%s from %s", pkg, b.Version)
				}
				for {
					got, err := Resolve(all, Request{Package: pkg, Installed: at})
					require.NoError(t, err, "%s from %s", pkg, at.Version)
					if got.Bundle.Name == at.Name {
						break
					}
					from, _ := parseVersion(at.Version)
					to, _ := parseVersion(got.Bundle.Version)
					require.Positive(t, to.compare(from), "%s from %s to %s", pkg, at.Version, got.Bundle.Version)
					at = &Installed{Name: got.Bundle.Name, Version: got.Bundle.Version}
					steps++
				}
			}
		}
		t.Logf("%s: %d packages, %d upgrades", name, len(snapshot.PackageNames()), steps)
	}
}
