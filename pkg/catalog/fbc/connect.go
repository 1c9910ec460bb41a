package fbc

import (
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// connect joins the heads of a channel if there is more than one. Authors who let a catalog order their versions (the
// semver mode of community catalogs) do not declare upgrade edges. Entries are sorted, newest first. Each head except
// the newest is replaced by the next newer entry; if that entry already replaces another one, it skips the head and
// everything that leads only to the head. Edges that authors declare are kept.
func connect(entries []declcfg.ChannelEntry) []declcfg.ChannelEntry {
	byName, superseders := map[string]*declcfg.ChannelEntry{}, map[string]int{}
	for i := range entries {
		e := &entries[i]
		byName[e.Name] = e
		for _, older := range append(slices.Clip(e.Skips), e.Replaces) {
			if older != e.Name {
				superseders[older]++
			}
		}
	}
	for i := 1; i < len(entries); i++ {
		if superseders[entries[i].Name] > 0 {
			continue
		}
		newer := &entries[i-1]
		if byName[newer.Replaces] == nil {
			newer.Replaces = entries[i].Name
			continue
		}
		newer.Skips = slices.Clip(newer.Skips)
		for e := &entries[i]; e != nil && superseders[e.Name] < 2 && !slices.Contains(newer.Skips, e.Name); e = byName[e.Replaces] {
			newer.Skips = append(newer.Skips, e.Name)
		}
	}
	return entries
}
