package listen

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

// Limits for requests.
const (
	// MaxHeaderBytes bounds the header of a request. The server of Go reads up to 4 KiB more.
	MaxHeaderBytes = 16 << 10
	// headerTimeout bounds the time for receiving a request, writeTimeout that for answering it, and idleTimeout the time
	// between two requests of a connection.
	headerTimeout, writeTimeout, idleTimeout = 10 * time.Second, 30 * time.Second, 90 * time.Second
)

// Unauthenticated returns the limits for a port that serves short responses to everyone, such as those for probes and
// metrics.
func Unauthenticated() Limits { return Limits{Connections: 64, PerClient: 8} }

// connectionBytes bounds the memory of one connection on which a request has not been read completely: the header, which
// is read into a buffer that grows to at most twice the size of its content, and the buffers and the stack of the
// connection.
const connectionBytes = 4*MaxHeaderBytes + 64<<10

// Bytes bounds the memory of the connections whose requests have not been read completely.
func (l Limits) Bytes() int { return l.Connections * connectionBytes }

// Server returns a server with limits on the size and duration of requests. what is used in log messages.
func Server(log logr.Logger, what string, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: MaxHeaderBytes, ErrorLog: connectionLog(log, what),
	}
}

// connectionLog returns a logger for the errors of connections. Clients cause them, so they must not fill the log.
func connectionLog(to logr.Logger, what string) *log.Logger {
	return log.New(quiet{to.WithValues("port", what)}, "", 0)
}

type quiet struct{ log logr.Logger }

// Write implements io.Writer.
func (q quiet) Write(text []byte) (int, error) {
	q.log.V(2).Info("Connection failed", "reason", string(text))
	return len(text), nil
}

// TCP listens on an address, which has the form host:port, within the limits.
func TCP(ctx context.Context, address string, limits Limits) (*Listener, error) {
	opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", address, err)
	}
	return New(opened, limits), nil
}
