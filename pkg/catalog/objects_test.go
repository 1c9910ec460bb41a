package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readObjects(text string) (objects, warnings []string, err error) {
	warnings, err = (&Manifests{Aliases: 0}).ReadObjects(context.Background(), []byte(text), func(object []byte) error {
		objects = append(objects, string(object))
		return nil
	})
	return objects, warnings, err
}

func TestReadObjects(t *testing.T) {
	const a, b = `{"kind":"A"}`, `{"kind":"B"}`
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"documents, without empty ones", "---\n# nothing\n---\nkind: A\n---\nkind: B\n", []string{a, b}},
		{"documents with comments and content beside the marker", "--- # a\nkind: A\n--- {kind: B}\n", []string{a, b}},
		{"a document after an end marker", "kind: A\n...\nkind: B\n", []string{a, b}},
		{"a directive", "# a\n%YAML 1.1\n---\nkind: A\n...\n%YAML 1.1\n---\nkind: B\n", []string{a, b}},
		{"Windows line ends", "---\r\nkind: A\r\n---\r\nkind: B\r\n", []string{a, b}},
		{"a byte order mark", "\ufeff---\nkind: A\n---\nkind: B", []string{a, b}},
		{"markers within text", "kind: A\nx: |\n  ---\n  ...\n", []string{`{"kind":"A","x":"---\n...\n"}`}},
		{"words that begin like markers", "---a: x\nkind: A\n", []string{`{"---a":"x","kind":"A"}`}},
		{"JSON", `{"kind": "A", "x": [1, 2]}`, []string{`{"kind":"A","x":[1,2]}`}},
		{"only an apiVersion", "apiVersion: v1", []string{`{"apiVersion":"v1"}`}},
		{"the last of several values", "kind: A\nx: {p: 1, p: 2}\nkind: B", []string{`{"kind":"B","x":{"p":2}}`}},
		{"large numbers without loss", "kind: A\nx: 9007199254740993", []string{`{"kind":"A","x":9007199254740993}`}},
		{"an empty file", "", nil},
		{"no object", "a: 1\n---\n[1]\n---\nx\n", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, _, err := readObjects(row.text)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
	_, _, err := readObjects("kind: A\n---\nb: [")
	require.ErrorContains(t, err, "document 2: invalid YAML: ")
	_, err = (&Manifests{Aliases: 0}).ReadObjects(context.Background(), []byte("kind: A"), func([]byte) error { return errors.New("too many") })
	require.EqualError(t, err, "too many")
}

// Each document is checked, also one that only an end marker or content beside the marker separates from the one before.
func TestReadObjectsOmitsNoObjectThatIsNestedTooDeeply(t *testing.T) {
	_, _, err := readObjects("kind: A\nx: " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))
	require.ErrorContains(t, err, "depth")
}

func TestReadObjectsLimitsTheAliasesOfEveryDocument(t *testing.T) {
	bomb := "x: &x " + strings.Repeat("x", 1000) + "\ny: [" + strings.Repeat("*x,", 100) + "]\n"
	for _, before := range []string{"", "kind: A\n...\n", "kind: A\n--- # b\n"} {
		_, _, err := readObjects(before + bomb)
		require.ErrorContains(t, err, "expand to more than", before)
	}
}

func TestWarningsAboutKeysAreShortAndOnOneLine(t *testing.T) {
	_, warnings, err := readObjects("kind: A\n\"a\\n---\\nb\": 1\n\"a\\n---\\nb\": 2\n" + strings.Repeat(strings.Repeat("k", 1000)+": 1\n", 2) + "5: 1\n5: 2\n")
	require.NoError(t, err)
	require.Equal(t, []string{
		`line 3: key "a\n---\nb" is repeated; its last value is used`,
		`line 5: key "` + strings.Repeat("k", 100) + `…" is repeated; its last value is used`,
		`line 7: key "5" is repeated; its last value is used`,
	}, warnings)
}

// Each repeated key compiled a regular expression: 1.4 MB of them took 12 s.
func TestRepeatedKeysCostLittleMoreThanOthers(t *testing.T) {
	allocations := func(key func(i int) string) float64 {
		text := "kind: A\n"
		for i := range 2_000 {
			text += key(i) + ": 1\n"
		}
		return testing.AllocsPerRun(1, func() {
			_, _, err := readObjects(text)
			require.NoError(t, err)
		})
	}
	distinct := allocations(func(i int) string { return fmt.Sprintf("k%04d", i) })
	require.Less(t, allocations(func(int) string { return "k0000" }), 4*distinct)
}

// A document of two bytes takes as long as one of a hundred, and aliases add to documents that are omitted.
func TestTheManifestsOfABundleHaveCommonLimits(t *testing.T) {
	read := func(m *Manifests, text string) error {
		_, err := m.ReadObjects(t.Context(), []byte(text), func([]byte) error { return nil })
		return err
	}
	m := &Manifests{}
	require.NoError(t, read(m, strings.Repeat("1\n...\n", MaxDocuments)))
	require.EqualError(t, read(m, "1"), "the manifests of the bundle have more than 20000 YAML documents, including those that are not Kubernetes objects: remove documents")

	m = &Manifests{Aliases: MaxContentBytes}
	long := "x: &x " + strings.Repeat("x", 1000) + "\ny: [" + strings.Repeat("*x,", 3000) + "]\n"
	for range 8 {
		require.NoError(t, read(m, long))
	}
	require.EqualError(t, read(m, long), "document 1: YAML aliases of all documents of the bundle together expand to more than 25165824 bytes")

	m = &Manifests{Aliases: 1000}
	require.NoError(t, read(m, "a: &a x\nb: b * c"))
	require.Zero(t, m.aliased.Load(), "there is no alias")
}

func TestReadObjectsEndsBetweenDocuments(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	kept := 0
	_, err := (&Manifests{}).ReadObjects(ctx, []byte("kind: A\n---\nkind: B\n"), func([]byte) error {
		kept++
		cancel(errors.New("too late"))
		return nil
	})
	require.EqualError(t, err, "too late")
	require.Equal(t, 1, kept)
}
