package docs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpectedOutputMatchesLineByLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want, got string
		match     bool
	}{
		"identical output":                        {"a\nb\n", "a\nb\n", true},
		"without the final newline":               {"a\n", "a", true},
		"an extra line":                           {"a\n", "a\nb\n", false},
		"a missing line":                          {"a\nb\n", "a\n", false},
		"only the start of a line":                {"a\n", "ab\n", false},
		"dots in a line":                          {"a-... b\n", "a-xyz b\n", true},
		"dots do not match a newline":             {"a-... b\n", "a-x\ny b\n", false},
		"a line of dots matches no lines":         {"a\n...\nb\n", "a\nb\n", true},
		"a line of dots matches two lines":        {"a\n...\nb\n", "a\nx\ny\nb\n", true},
		"a line of dots matches only whole lines": {"a\n...\nb\n", "a\nxb\n", false},
		"dots at the start":                       {"...\nb\n", "x\nb\n", true},
		"dots at the start match no lines":        {"...\nb\n", "b\n", true},
		"dots at the end":                         {"a\n...\n", "a\nx\n", true},
		"dots after part of a line":               {"a\n...\n", "ab\n", false},
		"special characters of patterns":          {"a.b (*)\n", "a.b (*)\n", true},
		"patterns are literal text":               {"a.b\n", "axb\n", false},
		"lines that kubectl logs are ignored":     {"a\n", "I1122 17:04:42.598202   23775 reflector.go:664] \"Warning: watch ended\" err=\"x\"\na\n", true},
		"other extra lines are not ignored":       {"a\n", "Warning: b\na\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.match, matches(c.want, c.got))
		})
	}
}

func TestFindsBlocks(t *testing.T) {
	t.Parallel()
	p := parsePage("p.md", "# P\n\n```console\n$ a\nx\ny\n$ b\n```\n\n    diagram -> x\n")
	require.Empty(t, p.problems)
	require.Len(t, p.blocks, 1)
	require.Equal(t, []command{{number: 4, line: "a", want: "x\ny\n"}, {number: 7, line: "b"}}, p.blocks[0].commands())
}

func TestABlockThatDoesNotRunIsListedAndItsPageSaysSo(t *testing.T) {
	t.Parallel()
	listed := unrun{page: "p.md", first: "make x", says: "elsewhere"}
	const block = "\n```sh\nmake x\nmake y\n```\n"
	for text, want := range map[string]bool{
		"Run it\nelsewhere:\n" + block:        true,
		"elsewhere\n\nRun it:\n" + block:      false,
		"elsewhere\n\n```sh\nmake z\n```\n":   false,
		"elsewhere\n\n```console\n$ a\n```\n": false,
	} {
		p := parsePage("p.md", text)
		require.Len(t, p.blocks, 1)
		require.Equal(t, want, listed.is(p.blocks[0]), text)
	}
}

func TestReportsBlocksThatWouldNotRun(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an indented command":           "    kubectl get pods\n",
		"an indented manifest":          "    apiVersion: v1\n",
		"a fence inside a list":         "- x\n\n  ```yaml\n  a: 1\n  ```\n",
		"a fence of tildes":             "~~~\na\n~~~\n",
		"a block that does not end":     "```yaml\na: 1\n",
		"text before the first command": "```console\nx\n$ a\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, parsePage("p.md", text).problems)
		})
	}
}

func TestNamesInShellBlocksAreChecked(t *testing.T) {
	t.Parallel()
	good := block{text: "make run ARGS=--exit   # make nothing\nkubectl apply -k manifests/bounded\n"}
	require.Empty(t, good.checkNames(root))
	require.Len(t, block{text: "make nothing\n"}.checkNames(root), 1)
	require.Len(t, block{text: "kubectl apply -k manifests/nothing\n"}.checkNames(root), 1)
	require.Len(t, block{text: "curl example.com\n"}.checkNames(root), 1)
}
