package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestCheckAliases(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	bomb := "s: &s " + strings.Repeat("x", 400_000) + "\nl: [" + strings.Repeat("*s,", 100) + "]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"modest aliases are fine", "a: &a {b: c}\nd: *a\ne: {<<: *a}\n", ""},
		{"shell text is fine", "run: a && b\nglob: '*.go'\n", ""},
		{"JSON text with both is fine", `{"a": " &x", "b": " *x"}` + "\n" + `{"c": 1}`, ""},
		{"a large repeated text is refused", bomb, "expand to more than"},
		{"in a later document", "a: 1\n---\n" + bomb, "document 2: YAML aliases expand to more than"},
		{"doubling is refused", laughs.String(), "expand to more than"},
		{"a cycle is refused", "a: &a [*a]\n", "contains itself"},
		{"an unknown alias is refused", "a: &a 1\nb: *c\n", "unknown anchor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckAliases([]byte(tt.text))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			_, err = (&catalog.Manifests{Aliases: catalog.MaxContentBytes / 4}).ReadObjects(t.Context(), []byte(tt.text), func([]byte) error { return nil })
			require.ErrorContains(t, err, tt.want)
		})
	}
}
