package listen

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// port is a Listener that accepts connections until the test ends.
type port struct {
	*testing.T
	*Listener
	accepted chan net.Conn
}

func open(t *testing.T, limits Limits) port {
	t.Helper()
	l, err := TCP(t.Context(), "127.0.0.1:0", limits)
	require.NoError(t, err)
	p := port{t, l, make(chan net.Conn, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.accepted <- conn
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return p
}

func dial(t *testing.T, to net.Addr, ip string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(t.Context(), "tcp", to.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (p port) from(ip string) net.Conn { return dial(p.T, p.Addr(), ip) }

func requireClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func (p port) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for client, conns := range p.clients {
		out[client] = len(conns)
	}
	return out
}

func TestLimitsConnections(t *testing.T) {
	p := open(t, Limits{Connections: 3, PerClient: 2})
	p.from("127.0.0.1")
	p.from("127.0.0.1")
	first := <-p.accepted
	<-p.accepted
	requireClosed(t, p.from("127.0.0.1"))
	p.from("127.0.0.2")
	<-p.accepted
	requireClosed(t, p.from("127.0.0.1"))
	require.Equal(t, map[string]int{"127.0.0.1": 2, "127.0.0.2": 1}, p.counts())

	require.NoError(t, first.Close())
	_ = first.Close() // closing a connection again changes nothing
	p.from("127.0.0.3")
	<-p.accepted
	requireClosed(t, p.from("127.0.0.3"))
	require.Equal(t, map[string]int{"127.0.0.1": 1, "127.0.0.2": 1, "127.0.0.3": 1}, p.counts())
}

// The kubelet and the kube-apiserver have few connections; they must be served while other clients take everything.
func TestAFullPortServesAClientWithFewerConnections(t *testing.T) {
	p := open(t, Limits{Connections: 4, PerClient: 4})
	busiest := p.from("127.0.0.1")
	for range 3 {
		<-p.accepted
		p.from("127.0.0.1")
	}
	<-p.accepted
	p.from("127.0.0.2")
	<-p.accepted
	requireClosed(t, busiest)
	p.from("127.0.0.3")
	<-p.accepted
	require.Equal(t, map[string]int{"127.0.0.1": 2, "127.0.0.2": 1, "127.0.0.3": 1}, p.counts())

	t.Log("a client does not gain from closing the connections of clients that have no more than it has")
	requireClosed(t, func() net.Conn { p.from("127.0.0.2"); <-p.accepted; return p.from("127.0.0.2") }())
	require.Equal(t, map[string]int{"127.0.0.1": 1, "127.0.0.2": 2, "127.0.0.3": 1}, p.counts())

	t.Log("connections of the kube-apiserver do not count, and are not closed")
	trusted := p.from("127.0.0.4")
	at := <-p.accepted
	p.Trust(at.RemoteAddr().String())
	require.True(t, p.IsTrusted(at.RemoteAddr().String()))
	require.NotContains(t, p.counts(), "127.0.0.4")
	for n := range 9 {
		p.from(fmt.Sprint("127.0.1.", n+1))
		<-p.accepted
	}
	_, err := trusted.Write([]byte("x"))
	require.NoError(t, err)
	_, err = at.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, at.Close())
	require.False(t, p.IsTrusted(at.RemoteAddr().String()))
}

func TestLimitsWhatAClientSendsBeforeARequestIsServed(t *testing.T) {
	p := open(t, Limits{Connections: 4, PerClient: 4, Unserved: 10})
	send := func() net.Conn {
		conn := p.from("127.0.0.1")
		_, err := conn.Write([]byte(strings.Repeat("x", 30)))
		require.NoError(t, err)
		return <-p.accepted
	}
	read := func(c net.Conn) (n int, err error) { return io.ReadFull(c, make([]byte, 10)) }
	for name, more := range map[string]func(string){"Served": p.Served, "Trust": p.Trust} {
		c := send()
		_, err := read(c)
		require.NoError(t, err, name)
		ended := make(chan error, 1)
		go func() {
			_, err := read(c)
			ended <- err
		}()
		require.Eventually(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return c.(*conn).waiting != nil
		}, time.Minute, time.Millisecond, "%s: the rest is not read", name)
		more(c.RemoteAddr().String())
		require.NoError(t, <-ended, name)
	}
	t.Log("closing ends the wait")
	c := send()
	_, err := read(c)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := read(c)
		ended <- err
	}()
	require.NoError(t, c.Close())
	require.Error(t, <-ended)
}

// 2,000 clients that never finish their headers use only the named amount of memory, and a probe is answered meanwhile.
func TestUnfinishedHeadersUseLittleMemory(t *testing.T) {
	const clients = 2000
	limits := Unauthenticated()
	l, err := TCP(t.Context(), "127.0.0.1:0", limits)
	require.NoError(t, err)
	server := Server(logr.Discard(), "health", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	header := []byte("GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20-100))
	before := memory()
	for n := range clients {
		conn := dial(t, l.Addr(), fmt.Sprintf("127.0.%d.%d", 1+n/200, 1+n%200))
		size := len(header)
		if n%2 == 0 {
			size = MaxHeaderBytes - 100 // an allowed header, which is not complete either
		}
		_, _ = conn.Write(header[:size]) // fails if the server closes the connection
	}
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := probe.Get("http://" + l.Addr().String() + "/healthz")
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusNoContent, got.StatusCode)
	const ownBytes = clients * 4096 // what the clients of this test use
	require.Less(t, int64(memory()-before), int64(limits.Bytes()+ownBytes))
}

// memory returns the bytes that the heap and the stacks of this process use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
