package message

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAStringOfOthersIsPartOfOneLine(t *testing.T) {
	for name, row := range map[string]struct {
		in   string
		want Text
	}{
		"plain text":              {"Grüße, 世界", "Grüße, 世界"},
		"line breaks":             {"a x\r\n\t---\n  kind: y\u2028z", "a x --- kind: y z"},
		"a terminal sequence":     {"a\x1b[31m\x00b\xff", "a\uFFFD[31m\uFFFDb\uFFFD"},
		"a direction change":      {"a\u202eb\u200bc", "a\uFFFDb\uFFFDc"},
		"a document at the start": {"---\nkind: x", `\--- kind: x`},
		"a comment":               {"# a: b", `\# a: b`},
		"a block of code":         {"```", "\\```"},
		"a mapping":               {"{kind: x}", `\{kind: x}`},
		"a key":                   {"kind: x", `\kind: x`},
		"a quoted key":            {`"k\x69nd": x`, `\"k\x69nd": x`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, Line(row.in)) })
	}
}

func TestDocumentsFollowTheLines(t *testing.T) {
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "a\n---\nb"}}
	docs, err := Documents(role)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n"+docs, Lines("a", docs, "b"))
	require.Equal(t, docs, Lines(docs))
	require.Contains(t, string(docs), "\n    ---\n", "a literal block is indented")

	role.Name = "a\u202eb\U000E0001c"
	docs, err = Documents(role)
	require.NoError(t, err)
	require.Contains(t, string(docs), `a\U0000202eb\U000e0001c`)
}
