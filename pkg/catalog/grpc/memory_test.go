package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// slicer is a registry that sends the bytes of messages in DATA frames of its choice, on its only connection.
type slicer struct {
	// messages are sent in this order, without the last byte of the last one before finish is closed.
	messages [][]byte
	finish   chan struct{}
	// frame returns the length of the n-th frame, and pad is the length of its padding.
	frame func(n int) int
	pad   int

	mu           sync.Mutex
	changed      *sync.Cond
	conn, stream int // the windows
	failed       error
	sent         int
	unsent       bytes.Buffer
}

// connect serves a slicer on a loopback port and returns a connection to it.
func (s *slicer) connect(t *testing.T) *Conn {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.changed, s.conn, s.stream = sync.NewCond(&s.mu), 65535, 65535
	for _, message := range s.messages {
		_, _ = s.unsent.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))))
		_, _ = s.unsent.Write(message)
	}
	s.messages = nil
	go func() {
		if peer, err := lis.Accept(); err == nil {
			s.serve(peer)
			_ = peer.Close()
		}
	}()
	conn, err := NewConn(lis.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = conn.Close(), lis.Close() })
	return conn
}

func (s *slicer) serve(peer net.Conn) {
	framer := http2.NewFramer(peer, peer)
	_, err := io.ReadFull(peer, make([]byte, len(http2.ClientPreface)))
	if err == nil {
		err = framer.WriteSettings()
	}
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err == nil {
			s.handle(framer, frame)
		}
	}
	s.fail(err)
}

func (s *slicer) handle(framer *http2.Framer, frame http2.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if size, ok := frame.Value(http2.SettingInitialWindowSize); ok {
			s.stream = int(size)
		}
	case *http2.WindowUpdateFrame:
		if frame.StreamID == 0 {
			s.conn += int(frame.Increment)
		} else {
			s.stream += int(frame.Increment)
		}
	case *http2.HeadersFrame:
		go s.send(framer, frame.StreamID)
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		s.failed = errors.Join(s.failed, errors.New("the client has ended the call"))
	}
	s.changed.Broadcast()
}

func (s *slicer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = errors.Join(s.failed, err)
	s.changed.Broadcast()
}

func (s *slicer) send(framer *http2.Framer, stream uint32) {
	err := headers(framer, stream, false, ":status", "200", "content-type", "application/grpc")
	for n := 0; s.unsent.Len() > 1 && err == nil; n++ {
		err = s.write(framer, stream, s.unsent.Next(min(s.frame(n), s.unsent.Len()-1)))
	}
	<-s.finish
	if err = errors.Join(err, s.write(framer, stream, s.unsent.Bytes()), headers(framer, stream, true, "grpc-status", "0")); err != nil {
		s.fail(err)
	}
}

func headers(framer *http2.Framer, stream uint32, last bool, pairs ...string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(pairs); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			return err
		}
	}
	return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: last})
}

// write waits until the windows allow the data, and sends it.
func (s *slicer) write(framer *http2.Framer, stream uint32, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	padding := s.pad
	if padding > 0 {
		padding++
	}
	for s.failed == nil && min(s.conn, s.stream) < len(data)+padding {
		s.changed.Wait()
	}
	if s.failed != nil {
		return s.failed
	}
	s.conn, s.stream, s.sent = s.conn-len(data)-padding, s.stream-len(data)-padding, s.sent+len(data)
	if s.pad > 0 {
		return framer.WriteDataPadded(stream, false, data, make([]byte, s.pad))
	}
	return framer.WriteData(stream, false, data)
}

// settle waits until the registry sends nothing more.
func (s *slicer) settle() {
	for last, since := -1, time.Now(); time.Since(since) < 300*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		if s.sent != last {
			last, since = s.sent, time.Now()
		}
		s.mu.Unlock()
	}
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func always(length int) func(int) int { return func(int) int { return length } }

// worst returns the lengths of the shortest frames that a connection may send: as many of one byte as possible, and then of the
// minimum average.
func worst(n int) int {
	if n < shortBytes/frameBytes {
		return 1
	}
	return frameBytes
}

// largest returns a bundle whose message has the maximum length.
func largest(t *testing.T) []byte {
	t.Helper()
	bundle := &api.Bundle{PackageName: "a", CsvName: "a.v1", CsvJson: strings.Repeat("x", MaxMessageBytes)}
	bundle.CsvJson = bundle.CsvJson[:2*MaxMessageBytes-proto.Size(bundle)]
	text, err := proto.Marshal(bundle)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), MaxMessageBytes)
	return text
}

// A message of 33 MiB took 135 MiB until its last byte arrived if its frames were a byte larger than one of gRPC's buffers.
func TestAnIncompleteMessageTakesLittleMoreThanItsLength(t *testing.T) {
	for name, s := range map[string]*slicer{
		"one byte": {frame: always(1)}, "worst": {frame: worst}, "280 bytes": {frame: always(280)}, "1024 bytes": {frame: always(1024)},
		"1025 bytes": {frame: always(1025)}, "4097 bytes": {frame: always(4097)}, "16 KiB": {frame: always(16 << 10)},
		"padding": {frame: always(1), pad: 255},
	} {
		t.Run(name, func(t *testing.T) {
			s.messages, s.finish = [][]byte{largest(t)}, make(chan struct{})
			conn := s.connect(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before, done := heap(), make(chan error, 1)
			go func() {
				_, err := conn.GetBundle(ctx, "a", "stable", "a.v1")
				done <- err
			}()
			s.settle()
			used := heap() - before
			t.Logf("%.1f MiB sent, %.1f MiB of memory", float64(s.sent)/(1<<20), float64(used)/(1<<20))
			require.Less(t, used, MaxMessageBytes*3/2)
			close(s.finish)
			cancel()
			t.Log(<-done)
		})
	}
}

func TestShortFramesEndTheConnection(t *testing.T) {
	s := &slicer{messages: [][]byte{largest(t)}, finish: make(chan struct{}), frame: always(100)}
	defer close(s.finish)
	_, err := s.connect(t).GetBundle(t.Context(), "a", "stable", "a.v1")
	require.ErrorContains(t, err, errShort.Error())
	s = &slicer{messages: [][]byte{largest(t)}, finish: make(chan struct{}), frame: always(100), pad: 255}
	defer close(s.finish)
	_, err = s.connect(t).GetBundle(t.Context(), "a", "stable", "a.v1")
	require.ErrorContains(t, err, errShort.Error())
}

// Ten thousand listings may wait for their turns.
func TestUnreadMessagesTakeLittleMemory(t *testing.T) {
	short, err := proto.Marshal(&api.Bundle{PackageName: "a", CsvName: "a.v1"})
	require.NoError(t, err)
	for name, frame := range map[string]func(int) int{"one byte": always(1), "worst": worst, "16 KiB": always(16 << 10)} {
		t.Run(name, func(t *testing.T) {
			s := &slicer{messages: [][]byte{short, largest(t)}, finish: make(chan struct{}), frame: frame}
			conn := s.connect(t)
			before, done, read := heap(), make(chan error, 1), make(chan struct{})
			go func() {
				done <- conn.ListBundles(t.Context(), func(*api.Bundle) error {
					<-read
					return errors.New("enough")
				})
			}()
			s.settle()
			used := heap() - before
			t.Logf("%.1f KiB sent, %.1f KiB of memory", float64(s.sent)/(1<<10), float64(used)/(1<<10))
			require.Less(t, used, UnreadBytes)
			close(s.finish)
			close(read)
			t.Log(<-done)
		})
	}
}

// Registries for OLM send frames of up to 16 KiB, and at least one for each message.
func TestMessagesInUsualFramesAreRead(t *testing.T) {
	s := &slicer{messages: [][]byte{largest(t)}, finish: make(chan struct{}), frame: always(1024)}
	close(s.finish)
	known := s.connect(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	bundle, err := known.GetBundle(t.Context(), "a", "stable", "a.v1")
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, MaxMessageBytes, proto.Size(bundle))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*MaxMessageBytes), "the message, a copy in one piece, and the bundle")

	many := make([]*api.Bundle, 20_000)
	for i := range many {
		many[i] = &api.Bundle{PackageName: "a", ChannelName: "stable", CsvName: "a.v1.0.0", Version: "1.0.0", BundlePath: "x.io/a"}
	}
	target, _ := serve(t, many...)
	conn, err := NewConn(target)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	n := 0
	require.NoError(t, conn.ListBundles(t.Context(), func(*api.Bundle) error { n++; return nil }))
	require.Len(t, many, n)
}
