package version

import (
	"net/http"

	"k8s.io/client-go/transport"
)

// UserAgent returns the user agent of a program: its name and version.
func UserAgent(program string) string { return program + "/" + String() }

// WithUserAgent returns a wrapper that sets the user agent of every request, also where a library would send its own.
func WithUserAgent(agent string) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return stamp{next, agent} }
}

type stamp struct {
	http.RoundTripper
	agent string
}

// RoundTrip implements http.RoundTripper.
func (s stamp) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.UserAgent() != s.agent {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", s.agent)
	}
	return s.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (s stamp) WrappedRoundTripper() http.RoundTripper { return s.RoundTripper }
