package image_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

func push(t *testing.T, s *registry.Server, named, text string) (ref, digest string) {
	t.Helper()
	made, err := registry.Bundle(fstest.MapFS{"manifests/x": {Data: []byte(text)}})
	require.NoError(t, err)
	ref, digest, err = s.Push(named, made)
	require.NoError(t, err)
	return ref, digest
}

func open(t *testing.T, o image.Options, access image.Access, ref string) (*image.Image, error) {
	t.Helper()
	client, err := image.New(o)
	require.NoError(t, err)
	return client.Open(t.Context(), ref, access)
}

func TestTriesMirrorsFirst(t *testing.T) {
	source, mirror := registry.New(t), registry.New(t)
	ref, old := push(t, source, "team/op/bundle:v1", "source")
	_, mirrored := push(t, mirror, "mirrored/op/bundle:v1", "mirror")
	plain := []string{source.Host, mirror.Host}
	for name, row := range map[string]struct {
		mirrors []image.Mirror
		want    string
	}{
		"none":                                  {nil, old},
		"a mirror":                              {[]image.Mirror{{Source: source.Host + "/team", Target: mirror.Host + "/mirrored"}}, mirrored},
		"a mirror of one repository":            {[]image.Mirror{{Source: source.Host + "/team/op/bundle", Target: mirror.Host + "/mirrored/op/bundle"}}, mirrored},
		"a mirror without the image":            {[]image.Mirror{{Source: source.Host, Target: mirror.Host}}, old},
		"a mirror of another prefix":            {[]image.Mirror{{Source: source.Host + "/tea", Target: mirror.Host + "/mirrored"}}, old},
		"an unavailable mirror and another one": {[]image.Mirror{{Source: source.Host, Target: "127.0.0.1:1"}, {Source: source.Host + "/team", Target: mirror.Host + "/mirrored"}}, mirrored},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, image.Options{Mirrors: row.mirrors, Plain: plain}, image.Access{}, ref)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Digest.String())
			require.Equal(t, source.Host+"/team/op/bundle", got.Repository)
		})
	}
	_, err := open(t, image.Options{Mirrors: []image.Mirror{{Source: source.Host, Target: mirror.Host}}, Plain: plain}, image.Access{}, source.Host+"/gone/x:v1")
	require.ErrorContains(t, err, source.Host+"/gone/x:v1")
	require.ErrorContains(t, err, mirror.Host+"/gone/x:v1", "the error names all locations")
}

// secure starts a registry with a self-signed certificate, and returns its host and the certificate.
func secure(t *testing.T) (host string, authority []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "https://")
	made, err := registry.Bundle(fstest.MapFS{"manifests/x": {Data: []byte("x")}})
	require.NoError(t, err)
	ref, err := name.ParseReference(host + "/bundle:v1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, made, remote.WithTransport(server.Client().Transport)))
	return host, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestTrustsTheInstallationsAuthorities(t *testing.T) {
	host, authority := secure(t)
	anywhere := image.Access{Anywhere: true}
	_, err := open(t, image.Options{}, anywhere, host+"/bundle:v1")
	require.ErrorContains(t, err, "certificate")
	_, err = open(t, image.Options{Authorities: [][]byte{authority}}, anywhere, host+"/bundle:v1")
	require.NoError(t, err)
	_, err = image.New(image.Options{Authorities: [][]byte{[]byte("none")}})
	require.Error(t, err)
}

func TestTenantsCannotReachLocalAddresses(t *testing.T) {
	host, authority := secure(t)
	_, port, _ := strings.Cut(host, ":")
	trusting := image.Options{Authorities: [][]byte{authority}}
	for _, at := range []string{host, "localhost:" + port, "[::1]:" + port, "0.0.0.0:" + port, "169.254.169.254", "169.254.169.254:80", "[fe80::1]:443", "[::ffff:127.0.0.1]:" + port} {
		_, err := open(t, trusting, image.Access{}, at+"/bundle:v1")
		require.ErrorContains(t, err, "is a loopback or link-local address", at)
	}
	s := registry.New(t)
	ref, _ := push(t, s, "bundle:v1", "x")
	_, err := open(t, image.Options{Plain: []string{s.Host}}, image.Access{}, ref)
	require.NoError(t, err, "the administrator has allowed plain HTTP for this host")
	_, err = open(t, image.Options{}, image.Access{Anywhere: true}, ref)
	require.ErrorContains(t, err, "plain HTTP is not allowed")
}

func TestHidesTheTextOfRegistryErrors(t *testing.T) {
	s := registry.New(t)
	for body, want := range map[string]string{
		"<html>secret</html>": "403 Forbidden",
		`{"errors":[{"code":"DENIED","message":"secret","detail":{"secret":1}},{"code":"the secret"}]}`: "DENIED",
		strings.Repeat("secret", 1<<20): "403 Forbidden",
	} {
		s.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, body)
			return true
		})
		_, err := open(t, image.Options{Local: true}, image.Access{Anywhere: true}, s.Host+"/xx:v1")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestHidesTheURLsOfRedirects(t *testing.T) {
	s := registry.New(t)
	for _, to := range []string{"http://10.255.255.255:1/x?Signature=secret", "https://127.0.0.1:1/x?Signature=secret"} {
		s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v2/" {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}
			return r.URL.Path != "/v2/"
		})
		_, err := open(t, image.Options{Local: true}, image.Access{Anywhere: true}, s.Host+"/xx:v1")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestLimitsEndlessResponses(t *testing.T) {
	s := registry.New(t)
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				break
			}
		}
		return true
	})
	_, err := open(t, image.Options{Local: true}, image.Access{Anywhere: true}, s.Host+"/xx:v1")
	require.ErrorIs(t, err, image.ErrImage)
}

func TestCredentialsFromPullSecrets(t *testing.T) {
	auth := func(user string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":p")) }
	secret := func(kind corev1.SecretType, key, text string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Type: kind, Data: map[string][]byte{key: []byte(text)}}
	}
	all := &image.Credentials{}
	require.NoError(t, all.Add(secret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, fmt.Sprintf(`{"auths":{
		"quay.io":{"auth":%q},"https://quay.io/team/":{"auth":%q},"*.example.com":{"auth":%q},"a.example.com:5000":{"auth":%q},
		"https://index.docker.io/v1/":{"auth":%q}}, "credHelpers":{"gcr.io":"evil"}}`, auth("quay"), auth("team"), auth("glob"), auth("port"), auth("docker")))))
	require.NoError(t, all.Add(secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, fmt.Sprintf(`{"old.io":{"auth":%q},"quay.io":{"auth":%q}}`, auth("old"), auth("later")))))
	for of, want := range map[string]string{
		"quay.io/xx/y": "quay", "quay.io/team/y": "team", "quay.io/team": "team", "quay.io/teams/y": "quay", "a.example.com/xx": "glob",
		"a.b.example.com/xx": "", "a.example.com:5000/xx": "port", "docker.io/library/xx": "docker", "gcr.io/xx": "", "old.io/xx": "old",
	} {
		repository, err := name.NewRepository(of)
		require.NoError(t, err)
		got, err := all.Resolve(repository)
		require.NoError(t, err)
		config, err := authn.Authorization(t.Context(), got)
		require.NoError(t, err)
		require.Equal(t, want, config.Username, of)
	}
	for _, bad := range []*corev1.Secret{
		secret(corev1.SecretTypeServiceAccountToken, "token", "very secret"),
		secret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, "very secret"),
		secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"quay.io":{"auth":"very secret"}}`),
		secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, ``),
	} {
		err := (&image.Credentials{}).Add(bad)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "very secret")
	}
}
