package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestVersionsAndRangesHaveALimit(t *testing.T) {
	pkg := func(version, skipRange string) *catalog.Package {
		return &catalog.Package{
			Name:     "p",
			Bundles:  map[string]*catalog.Bundle{"b": {Name: "b", Package: "p", Version: version}},
			Channels: map[string]*catalog.Channel{"c": {Name: "c", Entries: map[string]catalog.Entry{"b": {Name: "b", SkipRange: skipRange}}}},
		}
	}
	require.NoError(t, pkg("1.0.0", ">=1.0.0 <2.0.0").Validate())
	require.EqualError(t, pkg("1.0.0-"+strings.Repeat("a", 1000), "").Validate(), `package "p", bundle "b": the version has 1006 bytes; at most 256 are allowed`)
	require.EqualError(t, pkg("1.0.0", strings.Repeat("1.x ", 2000)).Validate(), `package "p", channel "c", entry "b": skipRange: the version range has 8000 bytes; at most 4096 are allowed`)
}
