package image_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

// requireToken makes a registry require a token. The handler token serves the requests for one.
func requireToken(s *registry.Server, token http.HandlerFunc) {
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			token(w, r)
		case r.Header.Get("Authorization") == "Bearer the token":
			return false
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+s.Host+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	})
}

// A registry chooses the URL of its token service, which can be on another server.
func TestHidesTheResponsesOfTokenServices(t *testing.T) {
	s := registry.New(t)
	for code, texts := range map[int][]string{
		http.StatusOK:                   {`{"password":"very secret"}`, `{"refresh_token":"very secret"}`, `very secret`, `{"token":{"very secret":1}}`},
		http.StatusNonAuthoritativeInfo: {`{"password":"very secret"}`, `very secret`},
		http.StatusMultipleChoices:      {`{"password":"very secret"}`},
	} {
		for _, text := range texts {
			requireToken(s, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = fmt.Fprint(w, text)
			})
			_, err := open(t, image.Options{Local: true}, image.Access{Anywhere: true}, s.Host+"/xx:v1")
			require.Error(t, err)
			require.NotContains(t, err.Error(), "very secret", code)
		}
	}
}

func TestUsesTheTokensOfTokenServices(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "bundle:v1", "x")
	for _, text := range []string{`{"token":"the token","expires_in":300,"issued_at":"2026-01-01T00:00:00Z"}`, `{"access_token":"the token"}`} {
		requireToken(s, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) })
		_, err := open(t, image.Options{Local: true}, image.Access{Anywhere: true}, ref)
		require.NoError(t, err)
	}
}
