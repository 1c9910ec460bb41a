package budget

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env/cputime"
)

// Every object is checked before it is decoded. A regular expression took 60 to 110 ns for each byte, ten times as long as decoding.
func TestQuantitiesAreFoundFasterThanObjectsAreDecoded(t *testing.T) {
	for name, text := range map[string]string{
		"digits": strings.Repeat("7", maxDigits-1), "names": "a", "empty texts": "", "spaces": strings.Repeat(" ", 100), "wide spaces": strings.Repeat("\u3000", 100),
		"text": strings.Repeat("lorem ipsum ", 1000), "exponents": "1e" + strings.Repeat("9", 9), "long exponents": "1e" + strings.Repeat("9", 1000) + "x",
	} {
		entry := fmt.Sprintf("%q,", text)
		list := []byte("[" + strings.Repeat(entry, 2_000_000/len(entry)) + `""]`)
		require.NoError(t, CheckQuantities(list), name)
		check, decode := cputime.Of(func() { _ = CheckQuantities(list) }), cputime.Of(func() { _ = json.Unmarshal(list, &[]string{}) })
		require.Less(t, check, decode, name)
	}
}
