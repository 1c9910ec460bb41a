package fbc

import (
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// connect joins the ends of a channel that has more than one: authors who let a catalog order their versions (the
// community catalogs' semver mode) do not say what replaces what. Entries are the newest first; each end but the
// newest comes to be replaced by the next newer entry or, where that one replaces another already, skipped by it
// with all that only leads to it. What authors say themselves stays.
func connect(entries []declcfg.ChannelEntry) []declcfg.ChannelEntry {
	there, superseders := map[string]*declcfg.ChannelEntry{}, map[string]int{}
	for i := range entries {
		e := &entries[i]
		there[e.Name] = e
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
		if there[newer.Replaces] == nil {
			newer.Replaces = entries[i].Name
			continue
		}
		newer.Skips = slices.Clip(newer.Skips)
		for e := &entries[i]; e != nil && superseders[e.Name] < 2 && !slices.Contains(newer.Skips, e.Name); e = there[e.Replaces] {
			newer.Skips = append(newer.Skips, e.Name)
		}
	}
	return entries
}
