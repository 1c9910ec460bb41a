package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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

// transport holds what a registry may do to who asks it: no plain HTTP, to which it could send us on, too,
// unless that is allowed, no answer larger than one is, and no words of its own in an error.
type transport struct {
	base  http.RoundTripper
	plain func(registry string) bool
	// registry is the one that was asked for an image.
	registry string
	// guarded refuses addresses of this machine and of its link, and private ones that are not allowed.
	guarded bool
	allowed Private
}

// to is the transport for one registry.
func (t *transport) to(registry string) *transport {
	return &transport{base: t.base, plain: t.plain, registry: registry, guarded: t.guarded, allowed: t.allowed}
}

// control is asked about an address before it is dialled.
type control func(ctx context.Context, asked, address string) error

func newTransport(authorities *x509.CertPool, plain func(string) bool, check control) *transport {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   DialTimeout,
		ResponseHeaderTimeout: HeaderTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		// What is sent is what counts: a layer is compressed by itself.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxErrorBytes,
	}
	base.DialContext = func(ctx context.Context, network, asked string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: DialTimeout}
		if check != nil {
			dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
				return check(ctx, asked, address)
			}
		}
		return dialer.DialContext(ctx, network, asked)
	}
	return &transport{base: base, plain: plain, guarded: check != nil}
}

// guard refuses addresses of this machine and of its link, and private ones, but for registries that the installation has
// named and for its own proxy.
func guard(plain func(registry string) bool, allowed Private) control {
	from := httpproxy.FromEnvironment()
	proxies := []string{hostPort(from.HTTPSProxy), hostPort(from.HTTPProxy)}
	return func(_ context.Context, asked, address string) error {
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

// hostPort is what is dialled for a proxy, as the environment names it.
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

// checkName is guard for what a name says by itself: through a proxy, what is dialled is the proxy.
func (t *transport) checkName(at *url.URL) error {
	if !t.guarded || t.plain(at.Host) || t.allowed.names(at.Host) {
		return nil
	}
	if strings.EqualFold(strings.TrimSuffix(at.Hostname(), "."), "localhost") {
		return t.allowed.refuse(at.Host, netip.IPv6Loopback())
	}
	ip, err := netip.ParseAddr(at.Hostname())
	if err != nil {
		return nil // a name: dialled, or looked up by the proxy
	}
	return t.allowed.refuse(at.Host, ip)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !t.mayBePlain(req.URL.Host) {
		return nil, fmt.Errorf("%s: plain HTTP is not allowed there", req.URL.Host)
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
		if err := withoutWords(resp); err != nil {
			cancel()
			return nil, err
		}
		return resp, nil
	}
	if !isBlob(req) {
		resp.Body = &limited{ReadCloser: resp.Body, left: MaxManifestBytes}
	}
	return resp, nil
}

// mayBePlain allows the registry itself, and nobody it sends us on to.
func (t *transport) mayBePlain(host string) bool { return host == t.registry && t.plain(host) }

// isBlob says whether a blob was asked for, be it that the registry has sent us on for it. A registry names the
// place where tokens are asked for; that request has a query, or is a POST.
func isBlob(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req.Method == http.MethodGet && req.URL.RawQuery == "" && path.Base(path.Dir(req.URL.Path)) == "blobs"
}

var errorCode = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// withoutWords leaves of an error its codes. Whoever names a registry reads its errors in a status: they must
// not be another server's pages.
func withoutWords(resp *http.Response) error {
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
		return 0, Refuse("a manifest of more than %d bytes", MaxManifestBytes)
	}
	return n, err
}

// paced ends a request whose answer stalls.
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

// Close ends the request.
func (p *paced) Close() error {
	p.timer.Stop()
	defer p.cancel()
	return p.ReadCloser.Close()
}
