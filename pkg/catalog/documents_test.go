package catalog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The API machinery's reader loses an unterminated last line whose length is a multiple of 4,096 bytes.
func TestReadsDocumentsOfAnyLength(t *testing.T) {
	for _, length := range []int{1, 4095, 4096, 4097, 7 * 4096} {
		want := strings.Repeat("x", length)
		for _, text := range []string{want, want + "\n"} {
			doc, err := Documents([]byte(text)).Read()
			require.NoError(t, err, length)
			require.Equal(t, want+"\n", string(doc))
		}
	}
}

func TestCountsAliasesInALastLineOfAnyLength(t *testing.T) {
	const head = "{a: &a [xxxxxxxx], b: ["
	for length := 4090; length < 4100; length++ {
		text := head + strings.Repeat("*a,", (length-len(head)-2)/3)
		text += strings.Repeat(" ", length-len(text)-2) + "]}"
		require.Len(t, text, length)
		require.Error(t, CheckAliases([]byte(text), 100), length)
	}
}

func TestEndLineDoesNotModifyTheText(t *testing.T) {
	text := []byte("ab")
	require.Equal(t, "a\n", string(EndLine(text[:1])))
	require.Equal(t, "ab", string(text))
	require.Equal(t, "a\n", string(EndLine([]byte("a\n"))))
	require.Empty(t, EndLine(nil))
}
