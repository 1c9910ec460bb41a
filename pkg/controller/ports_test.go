package controller

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/remit-olm/remit/pkg/lib/listen"
	"github.com/remit-olm/remit/pkg/lib/version"
)

// free returns an address on which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// apiServer starts an API server that serves only what NewManager reads. received, if set, is called for each request.
func apiServer(t *testing.T, received func(*http.Request)) *rest.Config {
	t.Helper()
	const group = `"groupVersion":"operators.coreos.com/v1alpha1","version":"v1alpha1"`
	responses := map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":   `{"kind":"APIGroupList","groups":[{"name":"operators.coreos.com","versions":[{` + group + `}],"preferredVersion":{` + group + `}}]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","namespaced":true,"kind":"Secret"}]}`,
		"/apis/operators.coreos.com/v1alpha1": `{"kind":"APIResourceList","groupVersion":"operators.coreos.com/v1alpha1",
			"resources":[{"name":"clusterserviceversions","namespaced":true,"kind":"ClusterServiceVersion"}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if received != nil {
			received(r)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, responses[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// Nobody authenticates at these ports, so each client gets little of them.
func TestTheHealthAndMetricsPortsAreLimited(t *testing.T) {
	o := ManagerOptions{UserAgent: "test", Namespace: "remit", HealthAddress: free(t), MetricsAddress: free(t)}
	mgr, err := NewManager(apiServer(t, nil), o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(url string, header string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
		require.NoError(t, err)
		r.Header.Set("Test", header)
		got, err := client.Do(r)
		if err != nil {
			return http.StatusRequestHeaderFieldsTooLarge, "" // the response may be lost if the client is still sending
		}
		defer got.Body.Close()
		body, _ := io.ReadAll(got.Body)
		return got.StatusCode, string(body)
	}
	for url, want := range map[string]string{
		o.HealthAddress + "/healthz": "ok", o.HealthAddress + "/readyz": "ok", o.HealthAddress + "/healthz/ping": "ok", o.MetricsAddress + "/metrics": "go_goroutines",
	} {
		code, body := status(url, "")
		require.Equal(t, http.StatusOK, code, url)
		require.Contains(t, body, want, url)
		code, _ = status(url, strings.Repeat("x", listen.MaxHeaderBytes+8<<10))
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, code, url)
	}
	for address, path := range map[string]string{o.HealthAddress: "/healthz", o.MetricsAddress: "/metrics"} {
		other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		for range listen.Unauthenticated().PerClient {
			conn, err := other.DialContext(t.Context(), "tcp", address)
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1)) // the connection has been accepted, and is kept
			require.NoError(t, err)
		}
		refused, err := other.DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		defer refused.Close()
		require.NoError(t, refused.SetReadDeadline(time.Now().Add(time.Minute)))
		// A server would soon close a connection without a request, too. Writing fails if the connection has been closed before.
		_, _ = fmt.Fprintf(refused, "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		_, err = refused.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	_, err = NewManager(apiServer(t, nil), ManagerOptions{UserAgent: "test", Namespace: "remit", HealthAddress: o.HealthAddress})
	require.ErrorContains(t, err, fmt.Sprintf("health port: listen on %q", o.HealthAddress))
}

// Administrators find out who sends a request from the audit log. The requests for Leases come from a library.
func TestEveryRequestNamesTheProgramAndItsVersion(t *testing.T) {
	lease := make(chan struct{})
	found := sync.OnceFunc(func() { close(lease) })
	var agents sync.Map
	mgr, err := NewManager(apiServer(t, func(r *http.Request) {
		agents.Store(r.UserAgent(), r.URL.Path)
		if strings.Contains(r.URL.Path, "/leases") {
			found()
		}
	}), ManagerOptions{UserAgent: "remit-test", Namespace: "remit", LeaderElection: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-lease
	cancel()
	require.NoError(t, <-ended)
	agents.Range(func(agent, path any) bool {
		require.Equal(t, "remit-test/"+version.String(), agent, path)
		return true
	})
}
