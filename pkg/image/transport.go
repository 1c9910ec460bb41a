package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// transport enforces the rules for connections to registries: plain HTTP, including redirects to it, only if allowed, limited
// response sizes, and no text of the registry in errors.
type transport struct {
	base  http.RoundTripper
	plain func(registry string) bool
	// registry is the registry of the requested image.
	registry string
	// guarded means that local addresses are refused, and private ones unless they are allowed.
	guarded bool
	allowed Private
}

// to returns the transport for one registry.
func (t *transport) to(registry string) *transport {
	return &transport{base: t.base, plain: t.plain, registry: registry, guarded: t.guarded, allowed: t.allowed}
}

// control checks an address before it is dialed.
type control func(asked, address string) error

func newTransport(authorities *x509.CertPool, plain func(string) bool, check control) *transport {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   DialTimeout,
		ResponseHeaderTimeout: HeaderTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		// Digests apply to the transmitted bytes, and layers are already compressed.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxErrorBytes,
	}
	base.DialContext = func(ctx context.Context, network, asked string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: DialTimeout}
		if check != nil {
			dialer.Control = func(_, address string, _ syscall.RawConn) error { return check(asked, address) }
		}
		return dialer.DialContext(ctx, network, asked)
	}
	return &transport{base: base, plain: plain, guarded: check != nil}
}

// guard refuses local addresses, and private ones that are not allowed, except for registries and the proxy that the
// installation has configured.
func guard(plain func(registry string) bool, allowed Private) control {
	from := httpproxy.FromEnvironment()
	proxies := []string{hostPort(from.HTTPSProxy), hostPort(from.HTTPProxy)}
	return func(asked, address string) error {
		host, _, _ := net.SplitHostPort(asked)
		if plain(asked) || plain(host) || allowed.names(asked) || slices.Contains(proxies, asked) {
			return nil
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q: %w", address, err)
		}
		return allowed.refuse(asked, at.Addr())
	}
}

// hostPort returns the address to dial for a proxy from the environment.
func hostPort(proxy string) string {
	at, err := url.Parse(proxy)
	if err != nil || at.Host == "" {
		at, err = url.Parse("http://" + proxy)
	}
	if err != nil {
		return ""
	}
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), ports[at.Scheme]))
}

// checkName applies guard to names and addresses in URLs, because connections through a proxy dial only the proxy.
func (t *transport) checkName(at *url.URL) error {
	if !t.guarded || t.plain(at.Host) || t.allowed.names(at.Host) {
		return nil
	}
	if strings.EqualFold(strings.TrimSuffix(at.Hostname(), "."), "localhost") {
		return t.allowed.refuse(at.Host, netip.IPv6Loopback())
	}
	ip, err := netip.ParseAddr(at.Hostname())
	if err != nil {
		return nil // a name, which is resolved when it is dialed or by the proxy
	}
	return t.allowed.refuse(at.Host, ip)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !t.canBePlain(req.URL.Host) {
		return nil, fmt.Errorf("%s: plain HTTP is not allowed for this host", req.URL.Host)
	}
	if err := t.checkName(req.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(req.Context())
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Request = req
	resp.Body = newPaced(resp.Body, cancel)
	if resp.StatusCode >= http.StatusBadRequest {
		if err := redactError(resp); err != nil {
			cancel()
			return nil, err
		}
		return resp, nil
	}
	if !isBlob(req) {
		resp.Body = &limited{ReadCloser: resp.Body, left: MaxManifestBytes, refusal: Refuse("its manifest is larger than %d bytes", MaxManifestBytes)}
	}
	return resp, nil
}

// canBePlain allows plain HTTP for the registry itself, but not for redirects to other hosts.
func (t *transport) canBePlain(host string) bool { return host == t.registry && t.plain(host) }

// isBlob reports whether a blob was requested, also after a redirect. Token requests, whose URL the registry chooses, have a
// query or use POST.
func isBlob(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req.Method == http.MethodGet && req.URL.RawQuery == "" && path.Base(path.Dir(req.URL.Path)) == "blobs"
}

var errorCode = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// redactError reduces an error response to its codes. Users who name a registry can read its errors in a status, which must
// not reveal the pages of another server.
func redactError(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	type coded struct {
		Code string `json:"code"`
	}
	var got, kept struct {
		Errors []coded `json:"errors"`
	}
	_ = json.Unmarshal(data, &got)
	for _, e := range got.Errors {
		if errorCode.MatchString(e.Code) && len(kept.Errors) < maxErrorCodes {
			kept.Errors = append(kept.Errors, e)
		}
	}
	text := []byte{}
	if len(kept.Errors) > 0 {
		if text, err = json.Marshal(kept); err != nil {
			return err
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return nil
}

func isLocalhost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// limited fails after a number of bytes or, if that is the exact number, if there are fewer.
type limited struct {
	io.ReadCloser
	left    int64
	isExact bool
	refusal error
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 || l.isExact && l.left > 0 && errors.Is(err, io.EOF) {
		return 0, l.refusal
	}
	return n, err
}

// paced cancels a request whose response stalls.
type paced struct {
	io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

func newPaced(body io.ReadCloser, cancel context.CancelFunc) *paced {
	return &paced{ReadCloser: body, cancel: cancel, timer: time.AfterFunc(StallTimeout, cancel)}
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err == nil {
		p.timer.Reset(StallTimeout)
	}
	return n, err
}

// Close cancels the request.
func (p *paced) Close() error {
	p.timer.Stop()
	defer p.cancel()
	return p.ReadCloser.Close()
}
