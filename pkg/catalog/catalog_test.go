package catalog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "hello.v1.2.3+build.4", "Über-operator", strings.Repeat("a", MaxNameBytes)} {
		require.NoError(t, CheckName(good))
	}
	for name, bad := range map[string]string{
		"empty":                      "",
		"too long":                   strings.Repeat("a", MaxNameBytes+1),
		"not UTF-8":                  "a\xff",
		"a path":                     "a/b",
		"a Windows path":             `a\b`,
		"the parent directory":       "..",
		"two words":                  "a b",
		"with a control character":   "a\x1bb",
		"with an invisible override": "a\u202eb",
	} {
		require.Error(t, CheckName(bad), name)
	}
}

func pkg(change func(*Package)) map[string]*Package {
	p := &Package{
		Name:           "a",
		DefaultChannel: "stable",
		Channels: map[string]*Channel{"stable": {Name: "stable", Entries: map[string]Entry{
			"a.v1": {Name: "a.v1", Replaces: "a.v0", Skips: []string{"x", "y"}},
		}}},
		Bundles: map[string]*Bundle{"a.v1": {Name: "a.v1", Package: "a", Properties: []Property{{Type: "t", Value: []byte("1")}}}},
	}
	change(p)
	return map[string]*Package{"a": p}
}

func TestDigestChangesWithTheContent(t *testing.T) {
	none, without := func(*Package) {}, func(string, string) string { return "" }
	base := Digest(pkg(none), without)
	require.Equal(t, base, Digest(pkg(none), without))
	for name, change := range map[string]func(*Package){
		"default channel":     func(p *Package) { p.DefaultChannel = "" },
		"package deprecation": func(p *Package) { p.Deprecation = "d" },
		"channel deprecation": func(p *Package) { p.Channels["stable"].Deprecation = "d" },
		"bundle deprecation":  func(p *Package) { p.Bundles["a.v1"].Deprecation = "d" },
		"image":               func(p *Package) { p.Bundles["a.v1"].Image = "i" },
		"version":             func(p *Package) { p.Bundles["a.v1"].Version = "1" },
		"property":            func(p *Package) { p.Bundles["a.v1"].Properties[0].Value = []byte("2") },
		"entry": func(p *Package) {
			p.Channels["stable"].Entries["a.v1"] = Entry{Name: "a.v1", Replaces: "a.v0", Skips: []string{"xy"}}
		},
	} {
		require.NotEqual(t, base, Digest(pkg(change), without), name)
	}
	require.NotEqual(t, base, Digest(pkg(none), func(string, string) string { return "content" }))
}

func TestStoreNotifiesOfChangesAndKeepsTheNewestReader(t *testing.T) {
	var s Store
	var told []string
	s.Watch(func(c Change) { told = append(told, c.Catalog.Name+c.Image) })
	k := types.NamespacedName{Namespace: "n", Name: "c"}

	require.True(t, s.Put(&Snapshot{Key: k, Digest: "1"}))
	same := &Snapshot{Key: k, Digest: "1"}
	require.False(t, s.Put(same))
	got, ok := s.Get(k)
	require.True(t, ok)
	require.Same(t, same, got)
	require.True(t, s.Put(&Snapshot{Key: k, Digest: "1", Priority: 1}))
	s.Delete(k)
	s.Delete(k)
	_, ok = s.Get(k)
	require.False(t, ok)
	s.TouchImage(k, "@image")
	require.Equal(t, []string{"c", "c", "c", "c@image"}, told)
}

func TestHead(t *testing.T) {
	for _, row := range []struct {
		name    string
		entries []Entry
		want    string
		err     string
	}{
		{"one entry", []Entry{{Name: "v1"}}, "v1", ""},
		{"a chain", []Entry{{Name: "v1"}, {Name: "v2", Replaces: "v1"}, {Name: "v3", Replaces: "v2"}}, "v3", ""},
		{"a skipped entry", []Entry{{Name: "v1"}, {Name: "v1.1", Replaces: "v1"}, {Name: "v2", Replaces: "v1", Skips: []string{"v1.1"}}}, "v2", ""},
		{"replacing a missing entry", []Entry{{Name: "v2", Replaces: "v1"}}, "v2", ""},
		{"replacing itself", []Entry{{Name: "v1", Replaces: "v1"}}, "v1", ""},
		{"skipping itself", []Entry{{Name: "v1", Skips: []string{"v1"}}}, "v1", ""},
		{"two heads", []Entry{{Name: "v3", Replaces: "v1"}, {Name: "v2", Replaces: "v1"}}, "", `channel "c" has 2 heads: ["v2" "v3"]`},
		{"a cycle", []Entry{{Name: "v1", Replaces: "v2"}, {Name: "v2", Replaces: "v1"}}, "", `channel "c" has no head`},
		{"no entries", nil, "", `channel "c" has no head`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &Channel{Name: "c", Entries: map[string]Entry{}}
			for _, e := range row.entries {
				c.Entries[e.Name] = e
			}
			head, err := c.Head()
			require.Equal(t, row.want, head.Name)
			if row.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.err)
		})
	}
}

func TestStoreNotifiesOfDeletionOnce(t *testing.T) {
	var s Store
	told := 0
	k := types.NamespacedName{Namespace: "n", Name: "c"}
	s.Delete(k)
	s.Watch(func(c Change) {
		told++
		s.Get(c.Catalog) // no lock is held
	})
	require.True(t, s.Put(&Snapshot{Key: k}))
	s.Delete(k)
	require.True(t, s.Put(&Snapshot{Key: k}))
	require.Equal(t, 3, told)
}

func TestACatalogIsLoadingUntilItsContentIsKnown(t *testing.T) {
	var s Store
	told := 0
	s.Watch(func(Change) { told++ })
	k := types.NamespacedName{Namespace: "n", Name: "c"}
	require.True(t, s.IsLoading(k))
	require.False(t, s.SetUnavailable(k))
	require.False(t, s.SetUnavailable(k))
	require.False(t, s.IsLoading(k))
	require.Equal(t, 1, told, "only what was not known yet")
	require.True(t, s.Put(&Snapshot{Key: k}))
	require.False(t, s.IsLoading(k))
	require.True(t, s.SetUnavailable(k))
	require.Equal(t, 3, told)
	_, ok := s.Get(k)
	require.False(t, ok)
	s.Delete(k)
	require.True(t, s.IsLoading(k), "another object with this name is loaded anew")
}

func TestContentDigestDependsOnManifestsInOrder(t *testing.T) {
	digest := func(manifests ...string) string {
		c := &Content{}
		for _, m := range manifests {
			c.Manifests = append(c.Manifests, []byte(m))
		}
		return c.Digest()
	}
	require.Equal(t, digest("a", "b"), digest("a", "b"))
	seen := map[string]bool{}
	for _, d := range []string{digest(), digest(""), digest("a", "b"), digest("b", "a"), digest("ab"), digest("a", "", "b"), digest("a\n1\nb")} {
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", d)
		require.False(t, seen[d])
		seen[d] = true
	}
}
