package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/remit-olm/remit/pkg/lib/listen"
)

const (
	// maxConnections bounds the connections of all clients, and maxPerClient bounds those of one client address.
	maxConnections, maxPerClient = 256, 16
	// maxStreams bounds the concurrent requests of one HTTP/2 connection, and maxUnread the bytes of requests that a client
	// has sent on it and that have not been read.
	maxStreams, maxUnread = 8, 64 << 10
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
	server := listen.Server(logr.FromContextOrDiscard(ctx), "catalog content", l.Handler)
	server.WriteTimeout = responseTimeout
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread / maxStreams}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: l.Certificate, NextProtos: []string{"h2", "http/1.1"}}
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
	err := server.ServeTLS(listen.New(listening, listen.Limits{Connections: maxConnections, PerClient: maxPerClient}), "", "")
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve catalogs: %w", err)
	}
	<-ended
	return nil
}
