package status

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
)

func TestTextIsSafeToDisplay(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"plain text", "Grüße, 世界", "Grüße, 世界"},
		{"line breaks and tabs", "a\n\tb", "a b"},
		{"a YAML document", "---\nkind: a", "\\--- kind: a"},
		{"invalid UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"a terminal escape", "a\x1b[31mb\x00\r\x7f\u0085", "a\uFFFD[31mb\uFFFD \uFFFD "},
		{"direction changes and line separators", "a\u202eb\u2066\u2028", "a\uFFFDb\uFFFD "},
		{"empty text", "", ""},
		{"text of the maximum length", strings.Repeat("x", MaxMessage), strings.Repeat("x", MaxMessage)},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, Text(row.in)) })
	}
}

func TestCutTruncatesAtWords(t *testing.T) {
	for _, row := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"short text", "one two", 20, "one two"},
		{"at a word boundary", "one two three four five six seven", 28, "one two … (truncated)"},
		{"at a line boundary", "one\ntwo\nthree\nfour\nfive\nsix\nseven", 28, "one\ntwo … (truncated)"},
		{"within a long word", "a " + strings.Repeat("b", 40), 36, "a " + strings.Repeat("b", 18) + " … (truncated)"},
		{"not within a character", strings.Repeat("ü", 20), 27, "üüüüü … (truncated)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := Cut(row.in, row.limit)
			require.Equal(t, row.want, got)
			require.LessOrEqual(t, len(got), row.limit)
			require.True(t, utf8.ValidString(got))
		})
	}
	require.LessOrEqual(t, len(Text(strings.Repeat("\xff ", MaxMessage))), MaxMessage)
}

func TestNotesOfEventsAreLimited(t *testing.T) {
	require.Equal(t, "short", Note("short"))
	got := Note(strings.Repeat("ü", 1000))
	require.LessOrEqual(t, len(got), 1024, "the API server accepts at most 1,024 bytes")
	require.True(t, utf8.ValidString(got))
	docs, err := message.Documents(map[string]string{"a": "b"})
	require.NoError(t, err)
	require.Equal(t, "a\nb", Note(message.Lines("a", "b", docs)))
	require.Equal(t, "a\nb\n---\na: b\n", Text(message.Lines("a", "b", docs)))
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b c", OneLine(" a\n\tb \r\n c\n"))
}

// The spec of a ClusterServiceVersion can take 70 MiB when it is encoded and decoded to compare it.
func TestAPatchIsComputedWithoutTheSpec(t *testing.T) {
	before := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "5"}}
	before.Spec.DisplayName = "a"
	d := operatorsv1alpha1.StrategyDeploymentSpec{}
	d.Spec.Template.OwnerReferences = make([]metav1.OwnerReference, 100_000)
	before.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{d}
	after := before.DeepCopy()
	after.Status.Message = "new"
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	patch, err := difference(before, after)
	runtime.ReadMemStats(&end)
	require.NoError(t, err)
	data, err := patch.Data(after)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"resourceVersion":"5"},"status":{"message":"new"}}`, string(data))
	require.Less(t, end.TotalAlloc-start.TotalAlloc, uint64(1<<20))
	require.Equal(t, "a", before.Spec.DisplayName)
}
