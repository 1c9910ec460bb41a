package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	for _, test := range []struct {
		name, file, image, want string
	}{
		{name: "finds a fixed image", image: "a", want: "/fixed"},
		{name: "does not find other images", image: "b"},
		{name: "prefers the file", file: "a=/file", image: "a", want: "/file"},
		{name: "uses the last line", file: "a=/one\n# a=/no\n\na=/two\n", image: "a", want: "/two"},
		{name: "keeps equal signs in the path", file: "a=/x=y", image: "a", want: "/x=y"},
		{name: "reads JSON", file: `{"reg.example/x@sha256:1": "/json"}`, image: "reg.example/x@sha256:1", want: "/json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := Map{Fixed: map[string]string{"a": "/fixed"}, File: filepath.Join(t.TempDir(), "images")}
			if test.file != "" {
				require.NoError(t, os.WriteFile(m.File, []byte(test.file), 0o600))
			}
			got, ok, err := m.Lookup(test.image)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.want != "", ok)
		})
	}
}

func TestParseRejectsIncompleteEntries(t *testing.T) {
	for _, entry := range []string{"", "a", "a=", "=b"} {
		_, _, err := Parse(entry)
		require.Error(t, err, entry)
	}
}
