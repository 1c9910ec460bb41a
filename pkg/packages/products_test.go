package packages

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// allocated returns the number of bytes that a function allocates, whether they are freed meanwhile or not.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// packageOf returns a package with n channels, whose heads head returns.
func packageOf(n int, deprecation string, head func(i int) string) *catalog.Package {
	p := &catalog.Package{Name: "etcd", DefaultChannel: "c000100", Channels: map[string]*catalog.Channel{}, Bundles: map[string]*catalog.Bundle{}}
	for i := range n {
		name := fmt.Sprintf("c%06d", i)
		entry := catalog.Entry{Name: head(i)}
		p.Channels[name] = &catalog.Channel{Name: name, Entries: map[string]catalog.Entry{entry.Name: entry}}
		p.Bundles[entry.Name] = &catalog.Bundle{Name: entry.Name, Version: "1.0.0", Deprecation: deprecation}
	}
	return p
}

// A catalog of less than 1 MiB must not make the program allocate gigabytes: 3,000 channels can have the same head, or
// list the same deprecated version.
func TestChannelsDoNotMultiplyDescriptions(t *testing.T) {
	long := strings.Repeat("x", 450<<10)
	described := `{"description":"` + long + `","provider":{"name":"CNCF"},"labels":{"operatorframework.io/arch.arm64":"supported"}}`
	many := shown{}
	for i := range 101 {
		many[fmt.Sprint("v", i)] = described
	}
	small := shown{"v": `{"displayName":"etcd"}`}
	same, each := func(int) string { return "v" }, func(i int) string { return fmt.Sprint("v", i) }
	for _, row := range []struct {
		name     string
		pkg      *catalog.Package
		displays shown
		channels int
		reads    int
	}{
		{"one description", packageOf(3_000, "", same), shown{"v": described}, 3_000, 3},
		{"a description for each channel", packageOf(101, "", each), many, 101, 102},
		{"one deprecation message", packageOf(3_000, long, same), small, 3_000, 2},
		{"more channels than fit", packageOf(100_000, "", same), small, 0, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			read := 0
			var got Record
			size := allocated(func() { got = Describe(t.Context(), source(), row.pkg, counting{row.displays, &read}) })
			require.LessOrEqual(t, read, row.reads)
			// Reading a description takes a few times its size.
			require.Less(t, size, uint64(100<<20+read*4*len(described)))
			text, err := json.Marshal(got.Manifest)
			require.NoError(t, err)
			require.Less(t, len(text), MaxRecordBytes)
			if row.channels > 0 {
				require.Len(t, got.Manifest.Status.Channels, row.channels)
			}
			if row.displays["v"] == described {
				require.Equal(t, "CNCF", got.Manifest.Status.Provider.Name)
				require.Equal(t, long, got.Manifest.Status.Channels[100].CurrentCSVDesc.LongDescription, "of the default channel")
			}
		})
	}
}

// counting counts the descriptions that are read.
type counting struct {
	shown

	read *int
}

// BundleDisplay implements catalog.DisplayReader.
func (c counting) BundleDisplay(ctx context.Context, pkg, channel, bundle string) ([]byte, error) {
	*c.read++
	return c.shown.BundleDisplay(ctx, pkg, channel, bundle)
}
