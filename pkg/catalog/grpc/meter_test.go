package grpc

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

func TestMeter(t *testing.T) {
	m, now := newMeter(), time.Now()
	require.NoError(t, m.received(idleBytes+2*windowBytes, now))
	require.ErrorIs(t, m.received(1000, now), errFlood)
	require.NoError(t, m.received(1000, now.Add(time.Second)), "the allowance is per minute")

	end := m.begin()
	require.NoError(t, m.received(excessBytes, now))
	require.ErrorIs(t, m.received(1, now), errFlood)
	m.message(excessBytes)
	require.NoError(t, m.received(excessBytes, now), "messages are accounted for")
	other := m.begin()
	require.NoError(t, m.received(excessBytes, now), "each call adds to the limit")
	other()
	end()
	require.ErrorIs(t, m.received(100_000, now.Add(time.Second)), errFlood, "the calls have ended")
	defer m.begin()()
	require.NoError(t, m.received(excessBytes, now), "a later call begins anew")
}

// A registry that sent pings without pause kept one processor busy for each connection.
func TestARegistryThatSendsOnlyPingsIsDisconnected(t *testing.T) {
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = lis.Close() }()
	conn, err := NewConn(lis.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	conn.Connect()
	peer, err := lis.Accept()
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	go func() { // read what the client answers
		buffer := make([]byte, 1<<16)
		for err := error(nil); err == nil; {
			_, err = peer.Read(buffer)
		}
	}()
	framer := http2.NewFramer(peer, nil)
	require.NoError(t, framer.WriteSettings())
	pings := 0
	for ; err == nil && pings < 10_000_000; pings++ {
		err = framer.WritePing(true, [8]byte{})
	}
	require.Error(t, err, "the client still reads after 170 MB")
}
