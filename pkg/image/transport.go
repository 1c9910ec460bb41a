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

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// transport enforces the rules for requests to registries: it allows plain HTTP, including redirects to it, only where
// permitted, limits the size of responses, and removes text from responses that would become part of errors.
type transport struct {
	base  http.RoundTripper
	plain func(registry string) bool
	// registry is the host of the registry that is accessed.
	registry string
	// guarded means that the transport refuses to connect to local addresses, and to private addresses that are not
	// allowed.
	guarded bool
	allowed Private
}

// forRegistry returns a transport for requests to one registry. It shares the connections of t.
func (t *transport) forRegistry(registry string) *transport {
	return &transport{base: t.base, plain: t.plain, registry: registry, guarded: t.guarded, allowed: t.allowed}
}

// control checks an address before a connection to it is established. It returns an error to refuse the address.
type control func(asked, address string) error

func newTransport(authorities *x509.CertPool, plain func(string) bool, check control) *transport {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   DialTimeout,
		ResponseHeaderTimeout: HeaderTimeout,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{MaxReceiveBufferPerStream: maxUnread},
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		// Digests apply to the bytes as transmitted, and layers are already compressed.
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

// guard returns a control that refuses local addresses, and private addresses that are not allowed. The registries and the proxy
// that the administrator has configured are exempt.
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

// hostPort returns the address to which the transport connects for a proxy from the environment.
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

// checkName applies the same rules as guard to the host of a URL, because with a proxy, only the address of the proxy
// is dialed.
func (t *transport) checkName(at *url.URL) error {
	if !t.guarded || t.plain(at.Host) || t.allowed.names(at.Host) {
		return nil
	}
	if strings.EqualFold(strings.TrimSuffix(at.Hostname(), "."), "localhost") {
		return t.allowed.refuse(at.Host, netip.IPv6Loopback())
	}
	ip, err := netip.ParseAddr(at.Hostname())
	if err != nil {
		return nil // the name is resolved when it is dialed, or by the proxy
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
	if err := restrict(req, resp); err != nil {
		cancel()
		return nil, err
	}
	return resp, nil
}

// restrict limits the size of a response, and removes text that could become part of an error.
func restrict(req *http.Request, resp *http.Response) error {
	isRedirect := resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.Header.Get("Location") != ""
	switch {
	case resp.StatusCode != http.StatusOK && !isRedirect:
		return redactError(resp)
	case isBlob(req):
		return nil
	}
	resp.Body = &limited{ReadCloser: resp.Body, left: MaxManifestBytes, refusal: Refuse("the image's manifest is larger than %d bytes", MaxManifestBytes)}
	switch {
	case isRedirect:
	case isToken(req):
		return redactToken(resp)
	default:
		resp.Body = &counted{ReadCloser: resp.Body}
	}
	return nil
}

// counted is a response body with JSON. Read fails if the JSON has more than MaxValues values: go-containerregistry decodes a manifest
// twice, and an index of 1 MiB that consists of {} would take 95 MB.
type counted struct {
	io.ReadCloser
	text *bytes.Reader
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if c.text == nil {
		text, err := io.ReadAll(c.ReadCloser)
		if err == nil {
			err = checkValues(text)
		}
		if err != nil {
			return 0, err
		}
		c.text = bytes.NewReader(text)
	}
	return c.text.Read(p)
}

func checkValues(text []byte) error {
	if budget.HasMoreValues(text, MaxValues) {
		return Refuse("the image's manifest or configuration has more than %d values", MaxValues)
	}
	return nil
}

// canBePlain reports whether plain HTTP is allowed for a host. It is allowed for the registry itself, but not for
// redirects to other hosts.
func (t *transport) canBePlain(host string) bool { return host == t.registry && t.plain(host) }

// isBlob reports whether the original request, before any redirects, is for a blob.
func isBlob(req *http.Request) bool {
	req = original(req)
	return req.Method == http.MethodGet && !isToken(req) && path.Base(path.Dir(req.URL.Path)) == "blobs"
}

// isToken reports whether the original request, before any redirects, is for a token. The registry chooses the URL, but only
// token requests have a query or use POST.
func isToken(req *http.Request) bool {
	req = original(req)
	return req.Method == http.MethodPost || req.URL.RawQuery != ""
}

func original(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

var errorCode = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// redactError reduces an error response to its codes. Errors from a registry that a user names are visible to that user
// in a status, and must not reveal the content of other servers.
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

var errNoToken = errors.New("the response of the registry's token service contains no token")

// redactToken reduces the response of a token service to its tokens, and returns an error if it has none. go-containerregistry
// would include the response in its error, although the registry can name any server as its token service.
func redactToken(resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	var tokens struct {
		Token   string `json:"token,omitempty"`
		Access  string `json:"access_token,omitempty"`
		Refresh string `json:"refresh_token,omitempty"`
	}
	if json.Unmarshal(data, &tokens) != nil || tokens.Token == "" && tokens.Access == "" {
		return errNoToken
	}
	text, err := json.Marshal(tokens) //nolint:gosec // G117: go-containerregistry needs the tokens
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return err
}

func isLocalhost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// limited is a response body. Read fails if the response is larger than allowed or, if isExact is true, smaller.
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

// paced is a response body that cancels the request if the response stalls. The time between two reads is not the registry's.
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
	p.timer.Reset(StallTimeout)
	defer p.timer.Stop()
	return p.ReadCloser.Read(b)
}

// Close cancels the request.
func (p *paced) Close() error {
	p.timer.Stop()
	defer p.cancel()
	return p.ReadCloser.Close()
}
