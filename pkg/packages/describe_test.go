package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/budget"
)

// shown implements catalog.DisplayReader. Keys are names of packages and bundles.
type shown map[string]string

func (s shown) PackageDisplay(_ context.Context, pkg string) ([]byte, error) {
	return []byte(s[pkg]), nil
}

func (s shown) BundleDisplay(_ context.Context, _, _, bundle string) ([]byte, error) {
	if s[bundle] == "unreadable" {
		return nil, errors.New("unreadable")
	}
	return []byte(s[bundle]), nil
}

func source() Source {
	return Source{
		Namespace: "remit-catalogs", Name: "community", UID: "u", Labels: map[string]string{"team": "a"},
		Created: metav1.NewTime(time.Unix(1e9, 0).UTC()), DisplayName: "Community", Publisher: "Them",
	}
}

// pkg has the channels alpha and stable, each with the versions 1.0.0 and 2.0.0.
func pkg() *catalog.Package {
	entries := map[string]catalog.Entry{"etcd.v2": {Name: "etcd.v2", Replaces: "etcd.v1"}, "etcd.v1": {Name: "etcd.v1"}}
	return &catalog.Package{
		Name: "etcd", DefaultChannel: "stable", Deprecation: "use another one",
		Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: entries}, "alpha": {Name: "alpha", Entries: entries, Deprecation: "old"}},
		Bundles: map[string]*catalog.Bundle{
			"etcd.v1": {Name: "etcd.v1", Version: "1.0.0", Deprecation: "vulnerable"}, "etcd.v2": {Name: "etcd.v2", Version: "2.0.0"},
		},
	}
}

const csv = `{"kind":"ClusterServiceVersion","metadata":{"name":"etcd.v2","annotations":{"capabilities":"Full"},"labels":{"operatorframework.io/arch.arm64":"supported"}},
"spec":{"displayName":"etcd","description":"# etcd","provider":{"name":"CNCF","url":"https://cncf.io"},"icon":[{"base64data":"aWNvbg==","mediatype":"image/png"}],
"customresourcedefinitions":{"owned":[{"name":"c.etcd.io","version":"v1","kind":"C"}]},"relatedImages":[{"name":"a","image":"q/a"},{"name":"b","image":"q/a"}],"nativeAPIs":[{"group":"","version":"v1","kind":"Pod"}]}}`

const csvMetadata = `{"displayName":"etcd","description":"# etcd","provider":{"name":"CNCF","url":"https://cncf.io"},"annotations":{"capabilities":"Full"},
"labels":{"operatorframework.io/arch.arm64":"supported"},"crdDescriptions":{"owned":[{"name":"c.etcd.io","version":"v1","kind":"C"}]},"relatedImages":[{"image":"q/a"}],"nativeAPIs":[{"group":"","version":"v1","kind":"Pod"}]}`

func TestDescribesAPackage(t *testing.T) {
	for name, displays := range map[string]shown{
		"ClusterServiceVersion": {"etcd.v2": csv},
		"olm.csv.metadata":      {"etcd.v2": csvMetadata, "etcd": `{"schema":"olm.package","icon":{"base64data":"aWNvbg==","mediatype":"image/png"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Describe(t.Context(), source(), pkg(), displays)
			require.Equal(t, []packagesv1.Icon{{Base64Data: "aWNvbg==", Mediatype: "image/png"}}, got.Icons)
			require.Equal(t, map[string]int{"stable": 0, "alpha": 0}, got.Uses)
			require.Equal(t, map[string]string{
				"provider": "CNCF", "provider-url": "https://cncf.io",
				"operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported",
			}, got.Manifest.Labels)
			require.Equal(t, map[string]string{"team": "a", "catalog": "community", "catalog-namespace": "remit-catalogs"}, source().Shared())
			text, err := json.MarshalIndent(got.Manifest.Status, "", " ")
			require.NoError(t, err)
			for _, part := range []string{
				`"catalogSourceDisplayName": "Community"`, `"catalogSourcePublisher": "Them"`, `"message": "use another one"`, `"message": "vulnerable"`, `"version": "2.0.0"`,
				`"capabilities": "Full"`, `"nativeApis": [`, `"customresourcedefinitions": {`, `"description": "# etcd"`,
			} {
				require.Contains(t, string(text), part)
			}
			require.NotContains(t, string(text), "base64data")
			stable := got.Manifest.Status.Channels[1]
			require.Equal(t, "etcd.v2", stable.CurrentCSV)
			require.Equal(t, []string{"q/a"}, stable.CurrentCSVDesc.RelatedImages)
			require.Equal(t, []packagesv1.ChannelEntry{
				{Name: "etcd.v2", Version: "2.0.0"}, {Name: "etcd.v1", Version: "1.0.0", Deprecation: &packagesv1.Deprecation{Message: "vulnerable"}},
			}, stable.Entries)
		})
	}
}

// All packages of a catalog are listed within the limits, even if parts of them cannot be
// displayed.
func TestOmitsWhatCannotBeDisplayed(t *testing.T) {
	large := strings.Repeat("x", catalog.MaxDisplayBytes)
	for name, displays := range map[string]shown{
		"nothing":         {},
		"unreadable":      {"etcd.v2": "unreadable"},
		"malformed":       {"etcd.v2": `{"kind":`, "etcd": `[]`},
		"another type":    {"etcd.v2": `{"kind":"ClusterServiceVersion","spec":{"keywords":7}}`},
		"too large":       {"etcd.v2": `{"description":"` + large + `"}`},
		"icon too large":  {"etcd": `{"icon":{"base64data":"` + large + `","mediatype":"image/png"}}`},
		"icon of no type": {"etcd": `{"icon":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Describe(t.Context(), source(), pkg(), displays)
			require.Empty(t, got.Icons)
			require.Empty(t, got.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription)
			require.Equal(t, "supported", got.Manifest.Labels["operatorframework.io/arch.amd64"])
		})
	}
	p := pkg()
	for n := range 5 {
		p.Channels[fmt.Sprint("c", n)] = &catalog.Channel{Name: fmt.Sprint("c", n), Entries: p.Channels["stable"].Entries}
	}
	got := Describe(t.Context(), source(), p, shown{"etcd.v2": `{"description":"` + large[:900<<10] + `","labels":{"operatorframework.io/os.a/b":"no","operatorframework.io/os.ok":"yes"}}`})
	text, err := json.Marshal(got.Manifest)
	require.NoError(t, err)
	require.Less(t, len(text), MaxManifestBytes)
	for _, c := range got.Manifest.Status.Channels {
		require.Equal(t, c.Name == "stable", c.CurrentCSVDesc.LongDescription != "", "only the default channel keeps its description")
	}
	require.NotContains(t, got.Manifest.Labels, "operatorframework.io/os.a/b")
	require.Equal(t, "yes", got.Manifest.Labels["operatorframework.io/os.ok"])
}

// A description of many empty values has few bytes, and needs many times as much memory when it is decoded.
func TestOmitsWhatNeedsMuchMoreMemoryThanText(t *testing.T) {
	described := func(n int) shown {
		return shown{"etcd.v2": `{"maintainers":[` + strings.Repeat("{},", n-1) + `{}]}`}
	}
	for n, want := range map[int]int{budget.MaxStructures - 1: budget.MaxStructures - 1, budget.MaxStructures: 0, 100_000: 0, 150_000: 0, 249_000: 0} {
		got := Describe(t.Context(), source(), pkg(), described(n))
		stable := got.Manifest.Status.Channels[1]
		require.Equal(t, "stable", stable.Name)
		require.Equal(t, want, len(stable.CurrentCSVDesc.Maintainers)) //nolint:testifylint // Len would print all of them
	}
	for n, isShown := range map[int]bool{100_000: true, 150_000: false} {
		got := Describe(t.Context(), source(), pkg(), shown{"etcd.v2": `{"description":"` + strings.Repeat(",", n) + `"}`})
		require.Equal(t, isShown, got.Manifest.Status.Channels[1].CurrentCSVDesc.LongDescription != "", "%d values", n)
	}
	p := pkg()
	for n := range 9 {
		p.Channels[fmt.Sprint("c", n)] = &catalog.Channel{Name: fmt.Sprint("c", n), Entries: p.Channels["stable"].Entries}
	}
	got := Describe(t.Context(), source(), p, described(budget.MaxStructures-1))
	require.LessOrEqual(t, budget.Of(got.Manifest).Memory, int64(memoryPerByte*MaxManifestBytes+4096))
	for _, c := range got.Manifest.Status.Channels {
		require.Equal(t, c.Name == "stable", len(c.CurrentCSVDesc.Maintainers) > 0, "only the default channel keeps its description")
	}
}

func TestWritesWithinTheLimits(t *testing.T) {
	snap := &catalog.Snapshot{Digest: "d", Packages: map[string]*catalog.Package{}}
	displays := shown{}
	for n := range 100 {
		p := pkg()
		p.Name = fmt.Sprintf("p%03d", n)
		snap.Packages[p.Name] = p
	}
	displays["etcd.v2"] = `{"description":"` + strings.Repeat("x", 1000) + `"}`
	snap.Displays = displays
	var out bytes.Buffer
	written, err := Write(t.Context(), &out, HeaderOf(source(), snap), snap, Limits{Bytes: 40_000, Packages: 1000})
	require.NoError(t, err)
	require.Positive(t, written.Omitted)
	d, h, err := NewDecoder(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	require.Equal(t, "community", h.Source.Name)
	described, brief := 0, 0
	for {
		r, _, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if r.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription != "" {
			require.Zero(t, brief)
			described++
		} else {
			brief++
		}
	}
	require.Positive(t, described)
	require.Positive(t, brief)
	require.Equal(t, 100, described+brief+written.Omitted)
	written, err = Write(t.Context(), io.Discard, h, snap, Limits{Bytes: 1 << 30, Packages: 30})
	require.NoError(t, err)
	require.Equal(t, 70, written.Omitted)
}

// slow implements catalog.DisplayReader. Its calls end in an error after a function was called.
type slow struct{ during func() error }

func (s slow) PackageDisplay(context.Context, string) ([]byte, error) { return nil, nil }
func (s slow) BundleDisplay(context.Context, string, string, string) ([]byte, error) {
	return nil, s.during()
}

func TestNotesDescriptionsThatTookTooLong(t *testing.T) {
	for name, row := range map[string]struct {
		during func(end func()) error
		limit  int64
		want   bool
	}{
		"the registry is slow":               {during: func(func()) error { return fmt.Errorf("read: %w", context.DeadlineExceeded) }, limit: 1 << 20, want: true},
		"the time has ended":                 {during: func(end func()) error { end(); return errors.New("canceled") }, limit: 1 << 20, want: true},
		"the registry refuses":               {during: func(func()) error { return errors.New("unknown bundle") }, limit: 1 << 20},
		"there is no description":            {during: func(func()) error { return nil }, limit: 1 << 20},
		"descriptions exceed the limit":      {during: func(end func()) error { end(); return nil }},
		"the time ends between two packages": {during: func(end func()) error { end(); return nil }, limit: 1 << 20, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			another := pkg()
			another.Name = "other"
			snap := &catalog.Snapshot{
				Digest: "d", Packages: map[string]*catalog.Package{"etcd": pkg(), "other": another},
				Displays: slow{func() error { return row.during(end) }},
			}
			written, err := Write(ctx, io.Discard, HeaderOf(source(), snap), snap, Limits{Bytes: row.limit, Packages: 10})
			require.NoError(t, err)
			require.Equal(t, row.want, written.IsIncomplete)
		})
	}
}

func TestRefusesMalformedCatalogs(t *testing.T) {
	const header = `{"source":{"namespace":"a","name":"b","created":null},"digest":"d"}` + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"empty":        {"", "incomplete"},
		"no end":       {header, "incomplete"},
		"other number": {header + `{"packages":1}` + "\n", "incomplete"},
		"no name":      {header + `{"manifest":{}}` + "\n", "name is empty"},
		"slash":        {header + `{"manifest":{"metadata":{"name":"a/b"}}}` + "\n", "slash"},
		"no such icon": {header + `{"manifest":{"metadata":{"name":"a"}},"uses":{"x":0}}` + "\n", "no icon"},
		"not JSON":     {header + "x\n", "invalid character"},
		"long line":    {header + strings.Repeat("x", MaxRecordBytes+1), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := NewDecoder(strings.NewReader(test.text))
			if err == nil {
				_, _, err = d.Next()
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
