package catalog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What aliases add is counted for all documents of a bundle: it was negative for an alias whose name is longer than its value.
func TestAliasesNeverAddLessThanNothing(t *testing.T) {
	name := strings.Repeat("x", 1000)
	for text, want := range map[string]int{
		"- &" + name + " ''\n- *" + name + "\n":                      0,
		"- &a " + strings.Repeat("b", 1000) + "\n- *a\n":             999,
		"- &" + name + " ''\n" + strings.Repeat("- *"+name+"\n", 10): 0,
	} {
		added, err := checkAliases([]byte(text), 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, added)
	}
}
