package image_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
)

func TestReadsCredentialsFromFilesForEachPull(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	files := image.Files{first, second}
	repository, err := name.NewRepository("quay.io/team/op")
	require.NoError(t, err)
	user := func() string {
		t.Helper()
		require.NoError(t, files.Check())
		got, err := files.Resolve(repository)
		require.NoError(t, err)
		config, err := authn.Authorization(t.Context(), got)
		require.NoError(t, err)
		return config.Username
	}
	write := func(file, name string) {
		t.Helper()
		auth := base64.StdEncoding.EncodeToString([]byte(name + ":p"))
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"auths":{"quay.io":{"auth":%q}}}`, auth), 0o600))
	}
	require.Empty(t, user(), "the files do not exist yet")
	write(second, "b")
	require.Equal(t, "b", user())
	write(first, "a")
	require.Equal(t, "a", user())
	write(first, "c")
	require.Equal(t, "c", user())

	for want, text := range map[string]string{
		"is not a Docker configuration in JSON": `{"auths":{"quay.io":{"auth":"very secret"}}}`,
		"is larger than 1048576 bytes":          strings.Repeat("very secret", 1<<20),
	} {
		require.NoError(t, os.WriteFile(first, []byte(text), 0o600))
		for _, call := range []func() error{files.Check, func() error { _, err := files.Resolve(repository); return err }} {
			err := call()
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, first)
			require.NotContains(t, err.Error(), "very secret")
		}
	}
}
