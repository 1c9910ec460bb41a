package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/catalog/disk"
)

const host = "catalogs.remit.svc"

// issued is a Certificates whose bundles the test receives.
func issued(t *testing.T) (*Certificates, *clocktesting.FakeClock, chan []byte) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Now())
	bundles := make(chan []byte, 10)
	c := &Certificates{Hosts: []string{host}, Clock: clock, Publish: func(_ context.Context, bundle []byte) error {
		bundles <- bundle
		return nil
	}}
	return c, clock, bundles
}

func run(t *testing.T, start func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestServesOverHTTPS(t *testing.T) {
	c, _, bundles := issued(t)
	run(t, c.Start)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(<-bundles))
	s := serving(t, objects...)
	listening, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	run(t, func(ctx context.Context) error {
		return (&Listener{Handler: s, Certificate: c.Get}).Serve(ctx, listening)
	})
	for _, http2 := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, listening.Addr().String())
			},
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2,
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Base("one")+"/api/v1/metas?package=a", nil)
		require.NoError(t, err)
		got, err := client.Do(request)
		require.NoError(t, err)
		require.Equal(t, joined(objects[1:3]...), body(t, got))
		require.NoError(t, got.Body.Close())
		require.Equal(t, http2, got.ProtoMajor == 2)
		client.CloseIdleConnections()
	}
}

// A client that does not read its response does not keep other clients waiting.
func TestStopsAResponseThatIsNotRead(t *testing.T) {
	c, _, bundles := issued(t)
	run(t, c.Start)
	<-bundles
	s := New("https://" + host)
	s.Put("one", large(t), modified) // more than fits into the buffers of a connection
	s.pace.Stall = time.Second
	listening, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	run(t, func(ctx context.Context) error {
		return (&Listener{Handler: s, Certificate: c.Get}).Serve(ctx, listening)
	})
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}).DialContext(t.Context(), "tcp", listening.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET "+all+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil) // only the headers
	require.NoError(t, err)
	defer got.Body.Close()
	require.Eventually(t, func() bool { return len(s.turns) == 0 }, time.Minute, time.Millisecond)
	_, err = io.Copy(io.Discard, got.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the client can tell that the response is incomplete")
}

// large returns a catalog with objects of 32 MiB in total.
func large(t *testing.T) *disk.Lines {
	t.Helper()
	store, err := disk.Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	w, err := store.NewLines(nil)
	require.NoError(t, err)
	defer w.Discard()
	for n := range 16 {
		require.NoError(t, w.Put("custom", "", fmt.Sprint(n), []byte(`{"schema":"custom","text":"`+strings.Repeat("x", 2<<20)+`"}`)))
	}
	l, err := store.PutLines("key", w, func(disk.Line) bool { return true })
	require.NoError(t, err)
	return l
}

func trusts(t *testing.T, bundle []byte, c *Certificates, now time.Time) bool {
	t.Helper()
	current, err := c.Get(nil)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	leaf, err := x509.ParseCertificate(current.Certificate[0])
	require.NoError(t, err)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	return err == nil
}

// Clients trust the server if they have any bundle that was current within the last hour.
func TestReplacesTheCertificate(t *testing.T) {
	c, clock, bundles := issued(t)
	_, err := c.Get(nil)
	require.EqualError(t, err, "the certificate has not been issued yet")
	run(t, c.Start)
	wait := func(d time.Duration) {
		require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
		clock.Step(d)
	}
	first := <-bundles
	require.True(t, trusts(t, first, c, clock.Now()))
	old, _ := c.Get(nil)

	wait(life*2/3 + time.Minute)
	second := <-bundles
	require.NotEqual(t, first, second)
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	require.True(t, trusts(t, first, c, clock.Now()), "the next certificate is not used before clients trust it")
	require.True(t, trusts(t, second, c, clock.Now()))

	wait(settle + time.Minute)
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	now, _ := c.Get(nil)
	require.NotEqual(t, old.Certificate, now.Certificate)
	require.Empty(t, bundles, "the previous CA remains trusted while the server or its clients may use the previous certificate")

	wait(settle)
	third := <-bundles
	require.NotEqual(t, second, third)
	require.False(t, trusts(t, first, c, clock.Now()))
	require.True(t, trusts(t, second, c, clock.Now()))
	require.True(t, trusts(t, third, c, clock.Now()))
	require.Empty(t, bundles)
}

func TestPublishesTheCAAgainAfterAFailure(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	var tries atomic.Int32
	bundles := make(chan []byte, 1)
	c := &Certificates{Hosts: []string{host}, Clock: clock, Publish: func(_ context.Context, bundle []byte) error {
		if tries.Add(1) < 3 {
			return errors.New("refused")
		}
		bundles <- bundle
		return nil
	}}
	run(t, c.Start)
	for range 2 {
		require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
		clock.Step(lastPause)
	}
	require.True(t, trusts(t, <-bundles, c, clock.Now()))
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	require.EqualValues(t, 3, tries.Load(), "nothing is published twice")
}
