package image_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

func TestReadsCredentialsFromFilesForEachPull(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	files := image.Files{first, second}
	repository, err := name.NewRepository("quay.io/team/op")
	require.NoError(t, err)
	user := func() string {
		t.Helper()
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
}

// It is unknown which registries an unparsable file is for, so it is treated as missing.
func TestPullsWithoutTheCredentialsOfAnInvalidFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	server := registry.New(t)
	ref, _ := push(t, server, "team/op:v1", "x")
	pull := func() error {
		_, err := open(t, image.Options{Plain: []string{server.Host}}, image.Access{Keychain: image.Files{file}}, ref)
		return err
	}
	for want, text := range map[string]string{
		fmt.Sprintf("credentials file %q is not a Docker configuration in JSON", file): `{"auths": "very secret"}`,
		"is larger than 1048576 bytes": strings.Repeat("very secret", 1<<20),
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.ErrorContains(t, image.Files{file}.Check(), want)
		require.NotContains(t, image.Files{file}.Check().Error(), "very secret")
		require.NoError(t, pull(), "the image needs no credentials")

		server.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		})
		err := pull()
		require.ErrorContains(t, err, "403")
		require.ErrorContains(t, err, "; some credentials were not used: ")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "very secret")
		server.Answer(nil)
	}
	require.NoError(t, os.Remove(file))
	server.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	require.NotContains(t, pull().Error(), "credentials")
}

func TestAnInvalidEntryAffectsOnlyItsRegistry(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	auth := base64.StdEncoding.EncodeToString([]byte("a:p"))
	require.NoError(t, os.WriteFile(first, fmt.Appendf(nil, `{"auths":{"quay.io":{"auth":"very secret"},"ghcr.io":{"auth":%q}}}`, auth), 0o600))
	require.NoError(t, os.WriteFile(second, fmt.Appendf(nil, `{"auths":{"quay.io":{"auth":%q}}}`, auth), 0o600))
	files := image.Files{first, second}
	require.NoError(t, files.Check())
	resolve := func(text string) (authn.Authenticator, error) {
		repository, err := name.NewRepository(text)
		require.NoError(t, err)
		return files.Resolve(repository)
	}
	_, err := resolve("quay.io/team/op")
	require.EqualError(t, err, fmt.Sprintf("credentials file %q has an invalid entry for this registry", first))
	got, err := resolve("ghcr.io/team/op")
	require.NoError(t, err)
	config, err := authn.Authorization(t.Context(), got)
	require.NoError(t, err)
	require.Equal(t, "a", config.Username)
	got, err = resolve("docker.io/team/op")
	require.NoError(t, err)
	require.Equal(t, authn.Anonymous, got)
}
