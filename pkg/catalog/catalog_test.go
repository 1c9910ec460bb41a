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
		"a path on other systems":    `a\b`,
		"the parent":                 "..",
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

func TestDigestSeesEveryChange(t *testing.T) {
	none := func(*Package) {}
	base := Digest(pkg(none), nil)
	require.Equal(t, base, Digest(pkg(none), nil))
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
		require.NotEqual(t, base, Digest(pkg(change), nil), name)
	}
	require.NotEqual(t, base, Digest(pkg(none), func(string, string) string { return "content" }))
}

func TestTheStoreTellsOfChangesAndKeepsTheNewestReader(t *testing.T) {
	var s Store
	var told []string
	s.Watch(func(k types.NamespacedName) { told = append(told, k.Name) })
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
	require.Equal(t, []string{"c", "c", "c"}, told)
}
