package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/test/env/cputime"
)

// oddYAML contains texts whose size is proportional to n, in YAML styles that are unusual for many values.
var oddYAML = []struct {
	name string
	text func(n int) string
}{
	{"directives", func(n int) string { return numbered(n, "%%TAG !e%d! tag:x\n") + "---\na: b\n" }},
	{"directives of an empty document", func(n int) string { return numbered(n, "%%TAG !e%d! tag:x\n") + "---\n" }},
	{"directives and other line breaks", func(n int) string { return numbered(n, "%%TAG !e%d! tag:x\r") + "---\ra: b\n" }},
	{"directives and Unicode line breaks", func(n int) string { return numbered(n, "%%TAG !e%d! tag:x\u2028") + "---\na: b\n" }},
	{"directives in UTF-16", func(n int) string { return utf16(numbered(n, "%%TAG !e%d! tag:x\n") + "---\na: b\n") }},
	{"directives of later documents", func(n int) string { return "a: b\n...\n" + numbered(n, "%%TAG !e%d! tag:x\n") + "---\na: b\n" }},
	{"unknown directives", func(n int) string { return numbered(n, "%%A%d b\n") + "---\na: b\n" }},
	{"anchors", func(n int) string { return numbered(n, "- &a%d b\n") }},
	{"one anchor", func(n int) string { return strings.Repeat("- &a b\n", n) }},
	{"anchors and aliases", func(n int) string { return numbered(n, "- &a%[1]d b\n- *a%[1]d\n") }},
	{"aliases", func(n int) string { return "a: &a b\nl:\n" + strings.Repeat("- *a\n", n) }},
	{"unknown aliases", func(n int) string { return "- &a b\n" + numbered(n, "- *b%d\n") }},
	{"tags", func(n int) string { return numbered(n, "- !a%d b\n") }},
	{"long tags", func(n int) string { return "- !" + strings.Repeat("a", 8*n) + " b\n" }},
	{"escaped tags", func(n int) string { return "- !" + strings.Repeat("%61", 3*n) + " b\n" }},
	{"binary", func(n int) string { return strings.Repeat("- !!binary YQ==\n", n) }},
	{"flow sequences", func(n int) string { return "[" + strings.Repeat("[a],", n) + "]\n" }},
	{"flow sequences of short lines", func(n int) string { return "[" + strings.Repeat("[a],\n", n) + "]\n" }},
	{"flow mappings", func(n int) string { return "[" + strings.Repeat("{a: b},", n) + "]\n" }},
	{"nested flow sequences", func(n int) string { return strings.Repeat("[", 8*n) + strings.Repeat("]", 8*n) }},
	{"nested mappings", func(n int) string { return "a: " + strings.Repeat("{a: ", 2*n) + strings.Repeat("}", 2*n) }},
	{"nested sequences", func(n int) string { return strings.Repeat("- ", 4*n) + "a\n" }},
	{"open flow sequences", func(n int) string { return strings.Repeat("[a,", 2*n) }},
	{"flow pairs", func(n int) string { return "[" + numbered(n, "a%d: b,") + "]\n" }},
	{"keys in a flow mapping", func(n int) string { return "{" + numbered(n, "a%d: b,") + "}\n" }},
	{"keys", func(n int) string { return numbered(n, "a%d: b\n") }},
	{"repeated keys", func(n int) string { return "kind: a\n" + strings.Repeat("a: b\n", n) }},
	{"numbers as keys", func(n int) string { return numbered(n, "%d: b\n") }},
	{"fractions as keys", func(n int) string { return numbered(n, "%d.5: b\n") }},
	{"not a number as keys", func(n int) string { return strings.Repeat(".nan: b\n", n) }},
	{"complex keys", func(n int) string { return numbered(n, "? [a%d]\n: b\n") }},
	{"long complex keys", func(n int) string { return numbered(n, "? a%d\n: b\n") }},
	{"merged keys", func(n int) string { return "a: &a {b: c}\nl:\n" + strings.Repeat("- <<: *a\n", n) }},
	{"merged sequences", func(n int) string { return "a: &a {b: c}\nd:\n  <<: [" + strings.Repeat("*a,", n) + "]\n" }},
	{"repeated merges", func(n int) string { return "a: &a {b: c}\nd:\n" + strings.Repeat("  <<: *a\n", n) }},
	{"nested merges", func(n int) string { return numbered(n, "- &a%d {<<: {b: c}}\n") }},
	{"documents", func(n int) string { return strings.Repeat("---\na: b\n", n) }},
	{"ended documents", func(n int) string { return strings.Repeat("a: b\n...\n", n) }},
	{"comments", func(n int) string { return strings.Repeat("# comment\n", n) + "a: b\n" }},
	{"comments and aliases", func(n int) string { return "- &a b\n- *a\n" + strings.Repeat("# comment\n", n) + "- b\n" }},
	{"comments of values and aliases", func(n int) string { return "- &a b\n- *a\n" + strings.Repeat("- b # c\n# d\n\n# e\n", n/2) }},
	{"indented comments and aliases", func(n int) string { return "- &a b\n- *a\n" + strings.Repeat("- b\n  # c\n", n) }},
	{"comments in flow and aliases", func(n int) string { return "- &a b\n- *a\n- [\n" + strings.Repeat("b, # c\n", n) + "]\n" }},
	{"comments in one comment", func(n int) string { return "- &a b\n- *a\n- c #" + strings.Repeat(" #", 4*n) + "\n" }},
	{"comments of nested mappings and aliases", func(n int) string { return "- &a b\n- *a\n" + strings.Repeat("- b:\n    c: d\n  # e\n", n/2) }},
	{"blank lines", func(n int) string { return "a: b\n" + strings.Repeat("\n", 8*n) }},
	{"blank lines and aliases", func(n int) string { return "a: &a b\nc: *a\n" + strings.Repeat("\n", 8*n) }},
	{"long plain scalar", func(n int) string { return "a: " + strings.Repeat("word ", 2*n) + "\n" }},
	{"long plain scalar of lines", func(n int) string { return "a: b\n" + strings.Repeat("  word\n", n) }},
	{"long quoted scalar of lines", func(n int) string { return `a: "b` + strings.Repeat("\n\n  word", n) + `"` + "\n" }},
	{"blank lines in a quoted scalar", func(n int) string { return `a: "b` + strings.Repeat("\n", 8*n) + `"` + "\n" }},
	{"long literal", func(n int) string { return "a: |\n" + strings.Repeat("  word\n", n) }},
	{"blank lines in a literal", func(n int) string { return "a: |\n" + strings.Repeat(" \n", 4*n) + " b\n" }},
	{"long folded text", func(n int) string { return "a: >\n" + strings.Repeat("  word\n\n", n) }},
	{"escapes", func(n int) string { return `a: "` + strings.Repeat(`\u0041`, n) + `"` + "\n" }},
	{"long number", func(n int) string { return "a: " + strings.Repeat("1", 8*n) + "\n" }},
	{"long number of parts", func(n int) string { return "a: 1" + strings.Repeat("_1", 4*n) + "\n" }},
	{"long fraction", func(n int) string { return "a: 0." + strings.Repeat("1", 8*n) + "e5\n" }},
	{"long binary number", func(n int) string { return "a: 0b" + strings.Repeat("1", 8*n) + "\n" }},
	{"many colons", func(n int) string { return "a: " + strings.Repeat(":", 8*n) + "\n" }},
	{"many dashes", func(n int) string { return strings.Repeat("-", 8*n) + "\n" }},
	{"question marks", func(n int) string { return strings.Repeat("? ", 4*n) + "\n" }},
	{"decreasing indentation", func(n int) string { return indented(n) }},
	{"times", func(n int) string { return strings.Repeat("- 2001-12-14t21:59:43.10-05:00\n", n/4) }},
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// indented returns nested block mappings of up to 100 levels, again and again.
func indented(n int) string {
	var b strings.Builder
	for i := range n / 8 {
		fmt.Fprintf(&b, "%sa%d:\n", strings.Repeat(" ", i%100), i)
	}
	return b.String()
}

func utf16(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// The readers of catalogs and bundles either refuse such a text or read it in linear time.
func TestOddYAMLTakesLinearTime(t *testing.T) {
	const n = 3_000
	for _, tt := range oddYAML {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, cputime.CheckLinear(n, func(n int) func() {
				text := []byte(tt.text(n))
				return func() {
					if CheckAliases(text, MaxContentBytes/4) == nil {
						_, _ = yaml.YAMLToJSON(text)
					}
					_, _ = (&Manifests{Aliases: MaxContentBytes / 4}).ReadObjects(context.Background(), text, func([]byte) error { return nil })
				}
			}))
		})
	}
}
