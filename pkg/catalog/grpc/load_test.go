package grpc

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// registry returns a mock that streams the bundles and has package "a" with default channel "stable".
func registry(t *testing.T, bundles ...*api.Bundle) *MockRegistryClient {
	client := NewMockRegistryClient(gomock.NewController(t))
	client.EXPECT().ListBundles(gomock.Any(), gomock.Any()).DoAndReturn(
		func(_ context.Context, each func(*api.Bundle) error) error {
			for _, b := range bundles {
				if err := each(b); err != nil {
					return err
				}
			}
			return nil
		}).AnyTimes()
	client.EXPECT().GetPackage(gomock.Any(), "a").Return(&api.Package{
		Name:               "a",
		DefaultChannelName: "stable",
		Channels:           []*api.Channel{{Name: "old", Deprecation: &api.Deprecation{Message: "use stable"}}},
	}, nil).AnyTimes()
	return client
}

func v1(channel string) *api.Bundle {
	return &api.Bundle{
		PackageName: "a", ChannelName: channel, CsvName: "a.v1", Version: "1.0.0", BundlePath: "quay.io/example/a:1",
		Properties: []*api.Property{{Type: "olm.package", Value: `{"packageName":"a","version":"1.0.0"}`}},
	}
}

func v2() *api.Bundle {
	return &api.Bundle{
		PackageName: "a", ChannelName: "stable", CsvName: "a.v2", Version: "2.0.0",
		Replaces: "a.v1", Skips: []string{"a.v1.1"}, SkipRange: "<2.0.0",
		CsvJson: `{}`, Object: []string{`{}`},
		ProvidedApis: []*api.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "A", Plural: "as"}},
		Dependencies: []*api.Dependency{{Type: "olm.package", Value: `{"packageName":"b","version":">1.0.0"}`}},
	}
}

func TestLoad(t *testing.T) {
	snap, err := Load(t.Context(), registry(t, v1("stable"), v1("old"), v2()), catalog.Kept{})
	require.NoError(t, err)

	pkg := snap.Packages["a"]
	require.Equal(t, "stable", pkg.DefaultChannel)
	require.Equal(t, []string{"old", "stable"}, pkg.ChannelNames())
	require.Equal(t, "use stable", pkg.Channels["old"].Deprecation)
	require.Equal(t, catalog.Entry{Name: "a.v2", Replaces: "a.v1", Skips: []string{"a.v1.1"}, SkipRange: "<2.0.0"},
		pkg.Channels["stable"].Entries["a.v2"])
	require.Equal(t, "quay.io/example/a:1", pkg.Bundles["a.v1"].Image)
	require.Len(t, pkg.Bundles["a.v1"].Properties, 1, "older fields do not duplicate properties")

	var types []string
	for _, p := range pkg.Bundles["a.v2"].Properties {
		types = append(types, p.Type)
	}
	require.Equal(t, []string{"olm.package", "olm.gvk", "olm.package.required"}, types, "properties are derived from the older fields")

	again, err := Load(t.Context(), registry(t, v2(), v1("old"), v1("stable")), catalog.Kept{})
	require.NoError(t, err)
	require.Equal(t, snap.Digest, again.Digest, "the order of the stream does not matter")
}

func TestLoadRefusesMalformedBundles(t *testing.T) {
	with := func(change func(*api.Bundle)) *api.Bundle {
		b := v1("stable")
		change(b)
		return b
	}
	for _, tt := range []struct {
		name   string
		bundle *api.Bundle
		want   string
	}{
		{"a name with a slash", with(func(b *api.Bundle) { b.CsvName = "../a" }), "must not contain a slash"},
		{"a name that is not UTF-8", with(func(b *api.Bundle) { b.ChannelName = "\xff" }), "is not valid UTF-8"},
		{"no package name", with(func(b *api.Bundle) { b.PackageName = "" }), "name is empty"},
		{"a very long name", with(func(b *api.Bundle) { b.CsvName = strings.Repeat("a", 300) }), "at most 253 are allowed"},
		{"a property that is not JSON", with(func(b *api.Bundle) { b.Properties[0].Value = "{" }), "must have a type and a JSON value"},
		{"an unknown default channel", with(func(b *api.Bundle) { b.ChannelName = "other" }), `its default channel "stable" does not exist`},
		{"a malformed dependency", with(func(b *api.Bundle) { b.Dependencies = []*api.Dependency{{Type: "olm.gvk", Value: "["}} }), `dependency "olm.gvk"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(t.Context(), registry(t, tt.bundle), catalog.Kept{})
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := Load(t.Context(), registry(t, v1("stable"), v1("stable")), catalog.Kept{})
	require.ErrorContains(t, err, `duplicate entry "a.v1"`)
	_, err = Load(t.Context(), registry(t), catalog.Kept{})
	require.ErrorContains(t, err, "has no bundles")
}

func TestLoadLimitsTheStream(t *testing.T) {
	l := newLoader(catalog.Kept{})
	l.bytes = catalog.MaxCatalogBytes
	require.ErrorContains(t, l.add(v1("stable")), "more than 536870912 bytes")
	l = newLoader(catalog.Kept{})
	l.bundles = catalog.MaxBundles
	require.ErrorContains(t, l.add(v1("stable")), "the registry sent more than 100000 bundles")
	l = newLoader(catalog.Kept{})
	l.entries = catalog.MaxEntries
	require.ErrorContains(t, l.add(v1("stable")), "more than 1000000 channel entries")
}

func TestContent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bundle *api.Bundle
		want   int
		err    string
	}{
		{"objects are used as manifests", &api.Bundle{PackageName: "a", CsvName: "a.v1", CsvJson: "{}", Object: []string{"{}", "[]"}}, 2, ""},
		{"a CSV alone is used as a manifest", &api.Bundle{PackageName: "a", CsvName: "a.v1", CsvJson: "{}"}, 1, ""},
		{"a bundle with an image has no content", &api.Bundle{PackageName: "a", CsvName: "a.v1", CsvJson: "{}", BundlePath: "img"}, 0, catalog.ErrNoContent.Error()},
		{"an empty bundle has no content", &api.Bundle{PackageName: "a", CsvName: "a.v1"}, 0, catalog.ErrNoContent.Error()},
		{"another bundle is refused", &api.Bundle{PackageName: "a", CsvName: "a.v2", CsvJson: "{}"}, 0, `returned package "a", bundle "a.v2"`},
		{"text that is not UTF-8 is refused", &api.Bundle{PackageName: "a", CsvName: "a.v1", CsvJson: "\xff"}, 0, "not valid UTF-8"},
		{"manifests that are too large are refused", &api.Bundle{PackageName: "a", CsvName: "a.v1", CsvJson: strings.Repeat(" ", catalog.MaxContentBytes+1)}, 0, "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := NewMockRegistryClient(gomock.NewController(t))
			client.EXPECT().GetBundle(gomock.Any(), "a", "stable", "a.v1").Return(tt.bundle, nil)
			content, err := (&Reader{Client: client}).Content(t.Context(), "a", "stable", "a.v1")
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, content.Manifests, tt.want)
		})
	}
}

func TestLoadReportsTheRegistrysError(t *testing.T) {
	client := NewMockRegistryClient(gomock.NewController(t))
	broken := errors.New("broken pipe")
	client.EXPECT().ListBundles(gomock.Any(), gomock.Any()).Return(broken)
	_, err := Load(t.Context(), client, catalog.Kept{})
	require.ErrorIs(t, err, broken)
}
