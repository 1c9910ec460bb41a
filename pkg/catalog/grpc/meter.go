package grpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// idleBytes bounds what a registry can send per minute while no call is in progress, for example pings. What a canceled call
	// had in flight is allowed in addition.
	idleBytes = 64 << 10
	// excessBytes bounds what a registry can send during each call in addition to twice the size of the messages that were received.
	excessBytes = MaxMessageBytes + 2*windowBytes
)

// errFlood closes a connection to a registry.
var errFlood = errors.New("the registry sends much data that no call has requested")

// meter limits what a registry sends on its connections. gRPC handles control frames, such as pings, at any time and in any number,
// so that one registry could keep a processor busy.
type meter struct {
	mu    sync.Mutex
	calls int
	// excess is what was received during calls and is not accounted for by messages.
	excess int
	idle   *rate.Limiter
}

func newMeter() *meter {
	return &meter{idle: rate.NewLimiter(rate.Limit(idleBytes)/60, idleBytes+2*windowBytes)}
}

// begin records that a call is in progress until end is called.
func (m *meter) begin() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls++; m.calls == 1 {
		m.excess = 0
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls--
	}
}

// message accounts for the bytes of a message.
func (m *meter) message(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.excess = max(0, m.excess-2*n)
}

// received returns an error if the registry has sent too much.
func (m *meter) received(n int, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == 0 {
		if !m.idle.AllowN(now, n) {
			return errFlood
		}
		return nil
	}
	if m.excess += n; m.excess > m.calls*excessBytes {
		return errFlood
	}
	return nil
}

// meteredCredentials are for plain text, and meter what is received. A dialer would do, but gRPC uses no proxy with a dialer.
type meteredCredentials struct {
	credentials.TransportCredentials
	meter *meter
}

func metered(m *meter) meteredCredentials {
	return meteredCredentials{insecure.NewCredentials(), m}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c meteredCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.TransportCredentials.ClientHandshake(ctx, authority, &meteredConn{conn, c.meter})
}

// Clone implements credentials.TransportCredentials.
func (c meteredCredentials) Clone() credentials.TransportCredentials {
	return meteredCredentials{c.TransportCredentials.Clone(), c.meter}
}

type meteredConn struct {
	net.Conn
	meter *meter
}

// Read implements net.Conn.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if flood := c.meter.received(n, time.Now()); flood != nil {
		return 0, errors.Join(flood, c.Close())
	}
	return n, err
}
