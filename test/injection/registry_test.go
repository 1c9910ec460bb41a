package injection

import (
	"context"
	"testing"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/grpc"
)

// registry is a registry with one bundle.
type registry struct {
	Bundle  *api.Bundle
	Package *api.Package
}

func (r *registry) ListBundles(_ context.Context, each func(*api.Bundle) error) error {
	return each(r.Bundle)
}

func (r *registry) GetPackage(context.Context, string) (*api.Package, error) { return r.Package, nil }

func (r *registry) GetBundle(context.Context, string, string, string) (*api.Bundle, error) {
	return r.Bundle, nil
}

func harmlessRegistry() *registry {
	return &registry{
		Bundle: &api.Bundle{
			CsvName: "op.v1", PackageName: "op", ChannelName: "stable", Version: "1.0.0", BundlePath: "example.com/op@sha256:1", Replaces: "op.v0", SkipRange: "<1.0.0",
			Properties: []*api.Property{{Type: "olm.package", Value: `{"packageName": "op", "version": "1.0.0"}`}},
		},
		Package: &api.Package{Name: "op", DefaultChannelName: "stable", Channels: []*api.Channel{{Name: "stable", CsvName: "op.v1"}}},
	}
}

// Every place of what a registry sends, except the manifests, which are places of a bundle.
func TestRegistries(t *testing.T) {
	t.Parallel()
	for _, p := range Places[registry]() {
		for _, text := range Strings() {
			r := harmlessRegistry()
			p.Set(r, text)
			for output, written := range outputsOfRegistry(t, r) {
				assert.NoError(t, CheckText(written), "%s: %q in %s", output, text, p.Path)
			}
		}
	}
	require.Equal(t, "\n\n", outputsOfRegistry(t, harmlessRegistry())["deprecation"])
}

func outputsOfRegistry(t *testing.T, r *registry) map[string]string {
	t.Helper()
	snapshot, err := grpc.Load(t.Context(), r, catalog.Kept{})
	if err != nil {
		return map[string]string{"refusal": err.Error()}
	}
	out := map[string]string{}
	for _, pkg := range snapshot.Packages {
		out["deprecation"] = pkg.Deprecation
		for _, c := range pkg.Channels {
			out["deprecation"] += "\n" + c.Deprecation
			for _, e := range c.Entries {
				out["edges"] += e.Replaces + "\n" + e.SkipRange + "\n"
			}
		}
		for _, b := range pkg.Bundles {
			out["deprecation"] += "\n" + b.Deprecation
			out["bundle"] += b.Image + "\n" + b.Version + "\n"
			for _, p := range b.Properties {
				out["bundle"] += p.Type + "\n"
			}
		}
	}
	return out
}
