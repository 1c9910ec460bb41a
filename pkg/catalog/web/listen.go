package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Limits for connections.
const (
	// maxConnections bounds the connections of all clients, and maxPerClient bounds those of one client address.
	maxConnections, maxPerClient = 256, 16
	// maxStreams bounds the concurrent requests of one HTTP/2 connection.
	maxStreams     = 8
	maxHeaderBytes = 16 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 90 * time.Second
	// endTimeout is how long responses can continue after the program is told to stop.
	endTimeout = 5 * time.Second
)

// Listener serves a handler over HTTPS.
type Listener struct {
	// Address is the host:port to listen on.
	Address string
	Handler http.Handler
	// Certificate returns the current certificate, as Certificates.Get does.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Start implements manager.Runnable: it serves until ctx is done.
func (l *Listener) Start(ctx context.Context) error {
	listening, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err != nil {
		return fmt.Errorf("listen for catalog clients: %w", err)
	}
	return l.Serve(ctx, listening)
}

// Serve is like Start, but uses an open listener.
func (l *Listener) Serve(ctx context.Context, listening net.Listener) error {
	server := &http.Server{
		Handler: l.Handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: responseTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: l.Certificate, NextProtos: []string{"h2", "http/1.1"}},
		// Clients cause failed handshakes, which must not fill the log.
		ErrorLog: log.New(connectionLog{logr.FromContextOrDiscard(ctx)}, "", 0),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	}()
	err := server.ServeTLS(newLimitedListener(listening), "", "")
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve catalogs: %w", err)
	}
	<-ended
	return nil
}

// connectionLog writes the errors of connections to the log at a high verbosity.
type connectionLog struct{ log logr.Logger }

// Write implements io.Writer.
func (c connectionLog) Write(text []byte) (int, error) {
	c.log.V(2).Info("Connection from a catalog client failed", "reason", string(text))
	return len(text), nil
}

// limitedListener closes connections that exceed the limits immediately, so that clients with many connections do not
// delay others.
type limitedListener struct {
	net.Listener
	max, maxPerClient int

	mu       sync.Mutex
	all      int
	byClient map[string]int
}

func newLimitedListener(l net.Listener) *limitedListener {
	return &limitedListener{Listener: l, max: maxConnections, maxPerClient: maxPerClient, byClient: map[string]int{}}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		if l.enter(client) {
			return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(client) })}, nil
		}
		_ = conn.Close()
	}
}

func (l *limitedListener) enter(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == l.max || l.byClient[client] == l.maxPerClient {
		return false
	}
	l.all++
	l.byClient[client]++
	return true
}

func (l *limitedListener) leave(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.byClient[client]--; l.byClient[client] == 0 {
		delete(l.byClient, client)
	}
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
