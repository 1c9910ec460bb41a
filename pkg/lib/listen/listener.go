package listen

import (
	"errors"
	"math"
	"net"
	"sync"
	"time"
)

// Limits bounds the connections of a port.
type Limits struct {
	// Connections bounds the connections of all clients, and PerClient bounds those of one client address.
	Connections, PerClient int
	// Unserved bounds the bytes that a client can send on a connection until Served is called for the connection, and
	// again between two calls; 0 means no limit. The bytes include those of TLS. What exceeds the limit is read only after
	// the next call of Served or Trust. If there is none within unservedWait, the connection ends.
	Unserved int
}

// unservedWait is how long a client that has sent too many bytes is given for its first request to be authenticated.
const unservedWait = 10 * time.Second

// ErrUnserved means that a client has sent too much before a request was served.
var ErrUnserved = errors.New("too many bytes before a request was served")

// Listener accepts connections within its limits, and closes all others immediately. It is safe for concurrent use.
type Listener struct {
	net.Listener
	limits Limits

	mu sync.Mutex
	// conns contains the open connections by remote address.
	conns map[string]*conn
	// counted is the number of connections that are not trusted. clients contains these by the IP address of the client,
	// oldest first.
	counted int
	clients map[string][]*conn
	// accepted is the number of connections so far.
	accepted uint64
}

// New returns a Listener that accepts the connections of an open listener.
func New(from net.Listener, limits Limits) *Listener {
	return &Listener{Listener: from, limits: limits, conns: map[string]*conn{}, clients: map[string][]*conn{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := accepted.RemoteAddr().String()
		client, _, _ := net.SplitHostPort(address)
		c := &conn{Conn: accepted, listener: l, address: address, client: client}
		evicted, ok := l.enter(c)
		if evicted != nil {
			_ = evicted.Close()
		}
		if ok {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// enter counts a connection, or returns false if it exceeds the limits. The caller must close the evicted connection.
func (l *Listener) enter(c *conn) (evicted *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := len(l.clients[c.client])
	if own >= l.limits.PerClient {
		return nil, false
	}
	if l.counted >= l.limits.Connections {
		if evicted = l.oldestOfTheBusiest(); evicted == nil || len(l.clients[evicted.client]) <= own {
			return nil, false
		}
		l.remove(evicted)
	}
	l.accepted++
	c.number = l.accepted
	l.counted++
	l.clients[c.client] = append(l.clients[c.client], c)
	l.conns[c.address] = c
	return evicted, true
}

// oldestOfTheBusiest returns the oldest connection of the client with the most connections.
func (l *Listener) oldestOfTheBusiest() (found *conn) {
	most := 0
	for _, conns := range l.clients { // at most Limits.Connections
		if n := len(conns); n > most || n == most && conns[0].number < found.number {
			most, found = n, conns[0]
		}
	}
	return found
}

// remove forgets a connection, if it has not been forgotten before.
func (l *Listener) remove(c *conn) {
	if l.conns[c.address] == c {
		delete(l.conns, c.address)
	}
	l.uncount(c)
}

// uncount stops counting a connection toward the limits.
func (l *Listener) uncount(c *conn) {
	all := l.clients[c.client]
	for i, other := range all {
		if other != c {
			continue
		}
		l.counted--
		if len(all) == 1 {
			delete(l.clients, c.client)
			return
		}
		l.clients[c.client] = append(all[:i:i], all[i+1:]...)
		return
	}
}

// Served records that an authenticated request from a remote address, in the form of http.Request.RemoteAddr, is being
// served, so that the client can send as many bytes as before.
func (l *Listener) Served(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[address]; c != nil {
		c.unserved = 0
		c.resume()
	}
}

// Trust exempts the connection from a remote address from all limits.
func (l *Listener) Trust(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[address]; c != nil && !c.trusted {
		c.trusted = true
		l.uncount(c)
		c.resume()
	}
}

// IsTrusted reports whether Trust has been called for the open connection from a remote address.
func (l *Listener) IsTrusted(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[address]
	return c != nil && c.trusted
}

// conn is a connection. The lock of its listener protects the fields below number.
type conn struct {
	net.Conn
	listener        *Listener
	address, client string
	number          uint64

	unserved        int
	trusted, closed bool
	// waiting is closed when a read that waits for room can continue; it is nil if no read waits.
	waiting chan struct{}
}

// Read implements net.Conn.
func (c *conn) Read(into []byte) (int, error) {
	room, more := c.room()
	if more != nil {
		timer := time.NewTimer(unservedWait)
		select {
		case <-more:
		case <-timer.C:
		}
		timer.Stop()
		if room, more = c.room(); more != nil {
			return 0, ErrUnserved
		}
	}
	n, err := c.Conn.Read(into[:min(room, len(into))])
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.unserved += n
	return n, err
}

// room returns how many bytes the client can send now. If there are none, it returns a channel that is closed when there
// may be more.
func (c *conn) room() (bytes int, more <-chan struct{}) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	limit := c.listener.limits.Unserved
	if limit == 0 || c.trusted || c.closed {
		return math.MaxInt, nil
	}
	if c.unserved < limit {
		return limit - c.unserved, nil
	}
	if c.waiting == nil {
		c.waiting = make(chan struct{})
	}
	return 0, c.waiting
}

// resume lets a read that waits for room continue. The caller holds the lock.
func (c *conn) resume() {
	if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.closed = true
	c.listener.remove(c)
	c.resume()
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
