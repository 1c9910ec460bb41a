package network

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

const dialTimeout = 5 * time.Second

// Dialer opens a connection to an address as seen by a Pod.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Proxy forwards CONNECT tunnels and plain HTTP requests through a Dialer.
type Proxy struct {
	dial    Dialer
	forward http.Handler
}

// NewProxy returns a Proxy that connects to targets with dial.
func NewProxy(dial Dialer) *Proxy {
	return &Proxy{dial: dial, forward: &httputil.ReverseProxy{
		// The request line of a proxied request contains the absolute URL, so there is nothing to rewrite.
		Rewrite: func(*httputil.ProxyRequest) {},
		// Event streams and watches must not be buffered.
		FlushInterval: -1,
		Transport:     &http.Transport{DialContext: dial},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			klog.V(2).InfoS("Proxy request failed", "url", r.URL.Redacted(), "err", err)
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}}
}

// Serve handles requests on the listeners until they are closed.
func (p *Proxy) Serve(listeners ...net.Listener) {
	server := &http.Server{Handler: p, ReadHeaderTimeout: dialTimeout}
	for _, l := range listeners {
		go func() { _ = server.Serve(l) }()
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.connect(w, r)
	case r.URL.IsAbs():
		p.forward.ServeHTTP(w, r)
	default:
		http.Error(w, "this server only accepts proxy requests", http.StatusBadRequest)
	}
}

func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	// The target is in the request URI; the API server's Host header is always 127.0.0.1.
	target := r.RequestURI
	upstream, err := p.dial(r.Context(), "tcp", target)
	client, buffered, hijackErr := http.NewResponseController(w).Hijack()
	if hijackErr != nil {
		if err == nil {
			_ = upstream.Close()
		}
		return
	}
	if err != nil {
		// Only the status line appears in the API server's error message, so it must contain the reason.
		reason := strings.Join(strings.Fields(err.Error()), " ")
		_, _ = fmt.Fprintf(client, "HTTP/1.1 502 %s\r\n\r\n", reason)
		_ = client.Close()
		return
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_, _ = client.Close(), upstream.Close()
		return
	}
	join(client, buffered.Reader, upstream)
}

// join copies in both directions and forwards half-closes, so that a client that closes its side after the request
// still gets the response.
func join(client net.Conn, fromClient *bufio.Reader, upstream net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(upstream, fromClient)
		closeWrite(upstream)
	}()
	_, _ = io.Copy(client, upstream)
	closeWrite(client)
	<-done
	_, _ = client.Close(), upstream.Close()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}
