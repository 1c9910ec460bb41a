package text

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllTextForPeopleGoesThroughOneWriter(t *testing.T) {
	packages, err := Load(t.Context(), module+"/pkg/...", module+"/cmd/...", module+"/api/...")
	require.NoError(t, err)
	require.Greater(t, len(packages), 80)
	var found []string
	for _, p := range packages {
		found = append(found, Check(p)...)
	}
	require.Empty(t, found, strings.Join(found, "\n"))
}

func TestTheCheckReportsEachWayAroundTheWriter(t *testing.T) {
	const file = "testdata/cmd/raw/raw.go"
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	var want []string
	for i, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// want") {
			want = append(want, fmt.Sprintf("test/text/%s:%d", file, i+1))
		}
	}
	packages, err := Load(t.Context(), "./testdata/cmd/raw")
	require.NoError(t, err)
	require.Len(t, packages, 1)
	var got []string
	for _, text := range Check(packages[0]) {
		at, _, _ := strings.Cut(text, ": ")
		if !slices.Contains(got, at) {
			got = append(got, at)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}
