package grpc

import (
	"context"
	"errors"
	"fmt"
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
	// frameBytes is the minimum average length of the frames of a message, without those at its ends. gRPC keeps each frame in a
	// buffer of its own until the message is complete, which takes up to 100 bytes more than its content.
	frameBytes = 256
	// shortBytes bounds by how much all frames together may be shorter than that. A window may be full of short messages.
	shortBytes = 2048 * frameBytes
)

// Errors that close a connection to a registry.
var (
	errFlood = errors.New("the registry sends much data that no call has requested")
	errShort = fmt.Errorf("the registry sends its messages in frames of less than %d bytes", frameBytes)
)

// meter limits what a registry sends on its connections. gRPC handles control frames, such as pings, at any time and in any number,
// so that one registry could keep a processor busy.
type meter struct {
	mu    sync.Mutex
	calls int
	// excess is what was received during calls and is not accounted for by messages.
	excess int
	// short is by how much frames were shorter than frameBytes in total, and is not accounted for by longer frames and by messages.
	short int
	idle  *rate.Limiter
}

func newMeter() *meter {
	return &meter{idle: rate.NewLimiter(rate.Limit(idleBytes)/60, idleBytes+2*windowBytes)}
}

// begin records that a call is in progress until end is called.
func (m *meter) begin() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls++; m.calls == 1 {
		m.excess, m.short = 0, 0
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
	m.excess, m.short = max(0, m.excess-2*n), max(0, m.short-2*frameBytes)
}

// frame returns an error if the content of frames, of which one has n bytes, is too short.
func (m *meter) frame(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.short = max(0, m.short+frameBytes-n); m.short > shortBytes {
		return errShort
	}
	return nil
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
	return c.TransportCredentials.ClientHandshake(ctx, authority, &meteredConn{Conn: conn, meter: c.meter})
}

// Clone implements credentials.TransportCredentials.
func (c meteredCredentials) Clone() credentials.TransportCredentials {
	return meteredCredentials{c.TransportCredentials.Clone(), c.meter}
}

type meteredConn struct {
	net.Conn
	meter  *meter
	frames frames
}

// Read implements net.Conn.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	wrong := c.meter.received(n, time.Now())
	if wrong == nil {
		wrong = c.frames.follow(b[:n], c.meter.frame)
	}
	if wrong != nil {
		return 0, errors.Join(wrong, c.Close())
	}
	return n, err
}
