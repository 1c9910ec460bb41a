package message

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAStringOfOthersIsPartOfOneLine(t *testing.T) {
	for name, row := range map[string]struct{ got, want Text }{
		"plain text":                  {Sprintf("%s is missing %d permissions", "Grüße, 世界", 2), "Grüße, 世界 is missing 2 permissions"},
		"line breaks":                 {Sprintf("a %s\nb", "x\r\n\t---\n  kind: y\u2028z"), "a x --- kind: y z\nb"},
		"in quotes":                   {Sprintf("a %q", "x\n---\u202e"), `a "x\n---\u202e"`},
		"a terminal sequence":         {Line("a\x1b[31m\x00b\xff"), "a\uFFFD[31m\uFFFDb\uFFFD"},
		"a direction change":          {Line("a\u202eb\u200bc"), "a\uFFFDb\uFFFDc"},
		"a document at the start":     {Line("---\nkind: x"), `\--- kind: x`},
		"dashes in two parts":         {Sprintf("-%s", "--"), `\---`},
		"after an empty part":         {Sprintf("a\n%s%s", "", "---"), "a\n\\---"},
		"a comment":                   {Sprintf("%s: %s", "# a", "b"), `\# a: b`},
		"a block of code":             {Line("```"), "\\```"},
		"a mapping":                   {Line("{kind: x}"), `\{kind: x}`},
		"a key":                       {Line("kind: x"), `\kind: x`},
		"an indented object":          {Sprintf("  %s", `{"kind": "x"}`), `\  {"kind": "x"}`},
		"an open mapping":             {Sprintf("  %s", "{"), `\  {`},
		"an open rule":                {Sprintf("  %s", `{verbs: ["get"]`), `\  {verbs: ["get"]`},
		"an indented rule":            {Sprintf("  %s", `{verbs: ["get"]}`), `  {verbs: ["get"]}`},
		"a quoted key":                {Line(`"k\x69nd": x`), `\"k\x69nd": x`},
		"Remit's own comment":         {Sprintf("# a %s", "---"), "# a ---"},
		"a text remains lines":        {Sprintf("a: %s", Lines("b", "c")), "a: b\nc"},
		"a mark":                      {Sprintf("%s", "\x00---"), "\uFFFD---"},
		"an error":                    {Sprintf("a: %v", errors.New("b\nc")), "a: b c"},
		"joined errors":               {Of(errors.Join(errors.New("a\nb"), errors.New("# c"))), "a b\n\\# c"},
		"a text in an error":          {Of(fmt.Errorf("%s: %w", "x\ny", Lines("a", "b").Err())), "x y: a\nb"},
		"joined errors in an error":   {Of(fmt.Errorf("x: %w", errors.Join(errors.New("a\n"), errors.New("b")))), "x: a \nb"},
		"an error that hides another": {Of(hiding{errors.New("x\ny")}), "a b"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, row.got) })
	}
	require.Empty(t, Of(nil))
}

type hiding struct{ error }

func (hiding) Error() string   { return "a\nb" }
func (h hiding) Unwrap() error { return h.error }

func TestInvisibleCharactersAreNotPlain(t *testing.T) {
	for _, r := range []rune{0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x034f, 0xfe00, 0xfe0f, 0xe0100, 0xe01ef, 0x200b, 0x180b} {
		text := "a" + string(r) + "b"
		require.False(t, IsPlain(text), "%U", r)
		require.False(t, IsWord(text), "%U", r)
		require.Equal(t, "a\ufffdb", OneLine(text), "%U", r)
	}
}

func TestDocumentsFollowTheLines(t *testing.T) {
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "a\n---\nb"}}
	docs, err := Documents(role)
	require.NoError(t, err)
	text := Lines("a", Sprintf("b %s", docs), "c")
	require.Equal(t, "a\nb \nc\n"+docs, text)
	require.Equal(t, Text("a\nb \nc"), text.Prose())
	require.Equal(t, docs, text.Documents())
	require.Equal(t, []Text{"a", "b ", "c"}, text.Split())
	require.Equal(t, text, Of(fmt.Errorf("%w", text.Err())))
	require.Equal(t, docs, Lines(docs))
	require.Contains(t, string(docs), "\n    ---\n", "a literal block is indented")

	role.Name = "a\u202eb\U000E0001c"
	docs, err = Documents(role)
	require.NoError(t, err)
	require.Contains(t, string(docs), `a\U0000202eb\U000e0001c`)
	tag, err := Documents(map[string]string{"a": "b\U000E0001c"})
	require.NoError(t, err)
	require.Equal(t, Text("---\n{\n  \"a\": \"b\\U000e0001c\"\n}\n"), tag, "block style would not escape it")
	separator, err := Documents(map[string]string{"a": "b\u2028c"})
	require.NoError(t, err)
	require.Equal(t, Text("---\n{\n  \"a\": \"b\\u2028c\"\n}\n"), separator, "JSON escapes it, but block style would not")
	require.Equal(t, []string{role.Name}, names(t, string(docs)))
}

func TestLimitKeepsNoPartOfADocument(t *testing.T) {
	docs, err := Documents(map[string]string{"a": "b"})
	require.NoError(t, err)
	text := Lines("one two three", docs)
	require.Equal(t, text, text.Limit(len(text)))
	require.Equal(t, Text("one two three"), text.Limit(len(text)-1))
	require.Equal(t, Text("one two … (truncated)"), Text("one two three four five six").Limit(25))
	require.LessOrEqual(t, len(Line(strings.Repeat("ü", 100)).Limit(51)), 51)
}

func TestATextFromAStatusIsReadAgain(t *testing.T) {
	docs, err := Documents(map[string]any{"kind": "Role"}, map[string]any{"kind": "RoleBinding", "metadata": map[string]any{"name": "---"}})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		in   string
		want Text
	}{
		"lines":                      {"a\n- b", "a\n- b"},
		"lines and documents":        {string(Lines("a", "b", docs)), Lines("a", "b", docs)},
		"only documents":             {string(docs), docs},
		"nothing":                    {"", ""},
		"unsafe lines":               {"a\x1b\n# b\n--- c", "a\uFFFD\n\\# b\n\\--- c"},
		"a document with a comment":  {"a\n---\nkind: Role # b\n", "a\n---\nkind: Role\n"},
		"text after the documents":   {"a\n---\nkind: Role\n---\nb\n", "a"},
		"the end of a document":      {"a\n---\nkind: Role\n...\n# b\n", "a\n---\nkind: Role\n"},
		"a document that is no YAML": {"a\n---\n{\n", "a"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, Reread(row.in)) })
	}
}
