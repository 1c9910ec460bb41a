package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplacesTerminalControlCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"Grüße, 世界\n\tend\n":              "Grüße, 世界\n\tend\n",
		"\x1b]0;title\x07\x1b[2J":         "\uFFFD]0;title\uFFFD\uFFFD[2J",
		"done\r\x1b[Kfailed":              "done\uFFFD\uFFFD[Kfailed",
		"C1: \u009b31m \xc2\x9d \x9b":     "C1: \uFFFD31m \uFFFD \uFFFD",
		"bidi: \u202egnp.exe\u2066\u200f": "bidi: \uFFFDgnp.exe\uFFFD\uFFFD",
		"invisible: a\u200bb\ufeff":       "invisible: a\uFFFDb\uFFFD",
		"lines: \u2028\u2029":             "lines: \uFFFD\uFFFD",
	} {
		var whole, bytewise bytes.Buffer
		n, err := NewWriter(&whole).Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, len(in), n)
		require.Equal(t, want, whole.String())

		w := NewWriter(&bytewise)
		for i := range len(in) {
			_, err := w.Write([]byte{in[i]})
			require.NoError(t, err)
		}
		require.Equal(t, want, bytewise.String(), "a character can be split between writes")
	}
}
