package status

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTextMakesAnythingSafeToShow(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"plain text", "Grüße, 世界", "Grüße, 世界"},
		{"lines and tabs", "a\n\tb", "a\n\tb"},
		{"invalid UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"a terminal escape", "a\x1b[31mb\x00\r\x7f\u0085", "a\uFFFD[31mb\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"what changes a text's direction, and lines that are none", "a\u202eb\u2066\u2028", "a\uFFFDb\uFFFD\uFFFD"},
		{"nothing", "", ""},
		{"what just fits", strings.Repeat("x", MaxMessage), strings.Repeat("x", MaxMessage)},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, Text(row.in)) })
	}
}

func TestCutKeepsWholeWordsAndSaysThatItCut(t *testing.T) {
	for _, row := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"nothing to cut", "one two", 20, "one two"},
		{"at a word", "one two three four five", 22, "one two … (cut)"},
		{"at a line", "one\ntwo\nthree\nfour\nfive", 22, "one\ntwo … (cut)"},
		{"within a word that is most of the text", "a " + strings.Repeat("b", 40), 30, "a " + strings.Repeat("b", 18) + " … (cut)"},
		{"never within a character", strings.Repeat("ü", 20), 21, "üüüüü … (cut)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := cut(row.in, row.limit)
			require.Equal(t, row.want, got)
			require.LessOrEqual(t, len(got), row.limit)
			require.True(t, utf8.ValidString(got))
		})
	}
	require.LessOrEqual(t, len(Text(strings.Repeat("\xff ", MaxMessage))), MaxMessage)
}
