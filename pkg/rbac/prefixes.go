package rbac

import (
	"maps"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// prefixes finds the URLs with a trailing star that match another URL. Each entry refers to its longest prefix among
// the other entries, so a lookup is one binary search and then a walk along these references.
type prefixes struct {
	sorted []string
	// parent contains, for each entry, the index of the longest other entry that is a prefix of it, or -1.
	parent []int
}

// prefixOf returns the prefix that a URL with a trailing star matches; ok is false for other URLs.
func prefixOf(url string) (prefix string, ok bool) {
	return strings.TrimRight(url, "*"), strings.HasSuffix(url, rbacv1.NonResourceAll)
}

func newPrefixes(distinct map[string]bool) prefixes {
	p := prefixes{sorted: slices.Sorted(maps.Keys(distinct))}
	p.parent = make([]int, len(p.sorted))
	last := -1
	for i, prefix := range p.sorted {
		for last >= 0 && !strings.HasPrefix(prefix, p.sorted[last]) {
			last = p.parent[last]
		}
		p.parent[i], last = last, i
	}
	return p
}

// including calls visit for each entry that is a prefix of the URL, longest first, until visit returns false.
func (p prefixes) including(url string, visit func(prefix string) bool) {
	after := sort.Search(len(p.sorted), func(i int) bool { return p.sorted[i] > url })
	for i := after - 1; i >= 0; i = p.parent[i] {
		if strings.HasPrefix(url, p.sorted[i]) && !visit(p.sorted[i]) {
			return
		}
	}
}
