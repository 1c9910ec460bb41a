package image

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// What a registry sends is in memory until it is read, also while reading waits.
func TestARegistryCanSendLittleAhead(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	authorities := x509.NewCertPool()
	authorities.AddCert(s.Certificate())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	s.Close()
	ours := newTransport(authorities, func(string) bool { return false }, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String(), nil)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := ours.base.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	conn, err := listener.Accept()
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
	require.NoError(t, err)
	frame, err := http2.NewFramer(conn, conn).ReadFrame()
	require.NoError(t, err)
	settings, ok := frame.(*http2.SettingsFrame)
	require.True(t, ok)
	window, ok := settings.Value(http2.SettingInitialWindowSize)
	require.True(t, ok)
	require.EqualValues(t, maxUnread, window)
	require.NoError(t, conn.Close())
	require.NoError(t, listener.Close())
	<-ended
}
