package display

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

func store(t *testing.T) *disk.Store {
	t.Helper()
	s, err := disk.Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// load loads a catalog and records its display-only data.
func load(t *testing.T, s *disk.Store, take func(int64) error, content string) (*catalog.Snapshot, error) {
	t.Helper()
	var loader fbc.Loader
	r, err := Record(s, &loader, take)
	require.NoError(t, err)
	defer r.Discard()
	snap, err := loader.Load(t.Context(), fstest.MapFS{"a.json": {Data: []byte(content)}})
	if err != nil {
		return nil, err
	}
	return snap, r.Finish("", snap)
}

func bundle(name, version, properties string) string {
	return fmt.Sprintf(`{"schema":"olm.bundle","package":"a","name":%q,"image":"i","relatedImages":[{"name":"","image":"i"}],"properties":[{"type":"olm.package","value":{"packageName":"a","version":%q}}%s]}`, name, version, properties)
}

const head = `{"schema":"olm.package","name":"a","defaultChannel":"stable","icon":{"base64data":"aWNvbg==","mediatype":"image/png"}}
{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v2","replaces":"a.v1"},{"name":"a.v1"}]}
`

func metadata(text string) string {
	return `,{"type":"olm.csv.metadata","value":{"displayName":"` + text + `"}}`
}

func TestReadsWhatIsDisplayed(t *testing.T) {
	s := store(t)
	snap, err := load(t, s, nil, head+bundle("a.v1", "1.0.0", metadata("old"))+bundle("a.v2", "2.0.0", metadata("new")))
	require.NoError(t, err)
	text, err := snap.Displays.PackageDisplay(t.Context(), "a")
	require.NoError(t, err)
	require.JSONEq(t, `{"schema":"olm.package","name":"a","icon":{"base64data":"aWNvbg==","mediatype":"image/png"}}`, string(text))
	text, err = snap.Displays.BundleDisplay(t.Context(), "a", "stable", "a.v2")
	require.NoError(t, err)
	require.JSONEq(t, `{"displayName":"new","relatedImages":[{"name":"","image":"i"}]}`, string(text))
	text, err = snap.Displays.BundleDisplay(t.Context(), "a", "stable", "a.v1")
	require.NoError(t, err)
	require.Nil(t, text, "only the newest bundles of channels are kept")
	text, err = snap.Displays.PackageDisplay(t.Context(), "b")
	require.NoError(t, err)
	require.Nil(t, text)
}

func TestReadsClusterServiceVersionsInTheCatalog(t *testing.T) {
	s := store(t)
	object := func(manifest string) string {
		return `,{"type":"olm.bundle.object","value":{"data":"` + base64.StdEncoding.EncodeToString([]byte(manifest)) + `"}}`
	}
	for manifest, want := range map[string]string{
		`{"kind":"ClusterServiceVersion","spec":{}}`:                                                  `{"kind":"ClusterServiceVersion","spec":{}}`,
		"kind: ClusterServiceVersion\nspec: {}\n":                                                     `{"kind":"ClusterServiceVersion","spec":{}}`,
		`{"kind":"ClusterServiceVersion","x":"` + strings.Repeat("x", catalog.MaxDisplayBytes) + `"}`: "",
	} {
		snap, err := load(t, s, nil, head+bundle("a.v1", "1.0.0", "")+bundle("a.v2", "2.0.0", object(`{"kind":"ConfigMap"}`)+object(manifest)))
		require.NoError(t, err)
		text, err := snap.Displays.BundleDisplay(t.Context(), "a", "stable", "a.v2")
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, text)
		} else {
			require.JSONEq(t, want, string(text))
		}
	}
}

// Objects that are too large are not stored, and the disk space is reserved first.
func TestLimitsWhatIsStored(t *testing.T) {
	s := store(t)
	taken := int64(0)
	take := func(n int64) error {
		taken += n
		return nil
	}
	snap, err := load(t, s, take, head+bundle("a.v1", "1.0.0", "")+bundle("a.v2", "2.0.0", metadata(strings.Repeat("x", catalog.MaxDisplayBytes))))
	require.NoError(t, err)
	text, err := snap.Displays.BundleDisplay(t.Context(), "a", "stable", "a.v2")
	require.NoError(t, err)
	require.Nil(t, text)
	require.Less(t, taken, int64(1000))
	full := errors.New("full")
	_, err = load(t, s, func(int64) error { return full }, head+bundle("a.v1", "1.0.0", "")+bundle("a.v2", "2.0.0", metadata("x")))
	require.ErrorIs(t, err, full)
}
