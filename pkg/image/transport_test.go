package image

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllowsPlainHTTPOnlyForLocalhostOrIfConfigured(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "127.0.0.1:5000": true, "[::1]:5000": true,
		"10.0.0.1:5000": false, "registry.local": false, "localhost.example.com": false, "quay.io": false,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/v2/", nil)
		require.NoError(t, err)
		for _, plain := range []bool{false, true} {
			tr := &transport{base: answering{}, plain: func(at string) bool { return plain || isLocalhost(at) }, registry: host}
			_, err = tr.RoundTrip(req)
			require.Equal(t, want || plain, err == nil, "%s %v", host, plain)
		}
		_, err = (&transport{base: answering{}, plain: func(string) bool { return true }, registry: "other"}).RoundTrip(req)
		require.Error(t, err, "the request was redirected")
	}
}

func TestOnlyBlobsAreUnlimited(t *testing.T) {
	for at, want := range map[string]bool{
		"GET https://quay.io/v2/team/op/blobs/sha256:1":              true,
		"GET https://quay.io/v2/team/op/manifests/v1":                false,
		"GET https://quay.io/v2/x/blobs/y/manifests/v1":              false,
		"GET https://quay.io/blobs/token?scope=repository:x":         false,
		"POST https://quay.io/blobs/token":                           false,
		"GET https://quay.io/v2/team/op/blobs/sha256:1?service=none": false,
	} {
		method, to, _ := strings.Cut(at, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, to, nil)
		require.NoError(t, err)
		require.Equal(t, want, isBlob(req), at)
		sentOn, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://store/x/blobs/y", nil)
		require.NoError(t, err)
		sentOn.Response = &http.Response{Request: req}
		require.Equal(t, want, isBlob(sentOn), at)
	}
}

func TestProxiesCanHaveLocalAddresses(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:8080")
	t.Setenv("HTTP_PROXY", "localhost")
	check := guard(func(string) bool { return false }, Private{})
	for asked, want := range map[string]bool{"127.0.0.1:8080": true, "localhost:80": true, "0.0.1:8080": false, "127.0.0.1:80": false} {
		require.Equal(t, want, check(asked, "127.0.0.1:1") == nil, asked)
	}
}

type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestReferenceRequiresARegistry(t *testing.T) {
	for _, text := range []string{"", "x", "bundle:v1", "team/bundle:v1", "quay.io/team/bundle", "./bundle", "/bundle", "quay.io/team/bundle@sha256:1"} {
		_, err := Reference(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{"quay.io/team/bundle:v1", "localhost:5000/bundle:v1", "quay.io/team/bundle@sha256:" + strings.Repeat("0", 64)} {
		_, err := Reference(text)
		require.NoError(t, err, text)
	}
}
