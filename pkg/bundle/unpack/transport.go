package unpack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// transport holds what a registry may do to who asks it: no plain HTTP, to which it could send us on, too,
// unless that is allowed, and no manifest larger than one is.
type transport struct {
	base     http.RoundTripper
	plain    bool
	registry string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !t.mayBePlain(req.URL.Host) {
		return nil, fmt.Errorf("%s: plain HTTP is not allowed, but to this machine", req.URL.Redacted())
	}
	resp, err := t.base.RoundTrip(req)
	if err == nil && strings.Contains(req.URL.Path, "/manifests/") {
		resp.Body = &limited{ReadCloser: resp.Body, left: MaxManifestBytes}
	}
	return resp, err
}

// mayBePlain allows the registry itself, and nobody it sends us on to.
func (t *transport) mayBePlain(host string) bool {
	if host != t.registry {
		return false
	}
	return t.plain || isThisMachine(host)
}

func isThisMachine(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// limited fails beyond a number of bytes.
type limited struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, refuse("a manifest of more than %d bytes", MaxManifestBytes)
	}
	return n, err
}
