package kill

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// gate is a proxy between the program and the API server. It counts completed writes and kills the program at one of
// them instead of returning the response.
type gate struct {
	*httptest.Server

	mu   sync.Mutex
	shot *shot
}

// shot is one pending kill.
type shot struct {
	// counts selects the writes to count. left is the number of writes that remain until the kill, including the one at
	// which the program is killed.
	counts func(*http.Request) bool
	left   int
	kill   func()
	// fired is closed when the program has been killed.
	fired chan struct{}
}

func newGate(t *testing.T, config *rest.Config) *gate {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	require.NoError(t, err)
	g := &gate{}
	g.Server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if isWrite(r.Out) {
				// Complete a write that the API server has received, even if its sender is killed: for a canceled write, the audit
				// log does not show whether it created the object.
				r.Out = r.Out.WithContext(context.WithoutCancel(r.Out.Context()))
			}
		},
		Transport:      transport,
		FlushInterval:  -1, // flush immediately, for watches
		ModifyResponse: g.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	g.EnableHTTP2 = true
	g.StartTLS() // the gate uses TLS, because client-go does not send tokens without it
	t.Cleanup(g.Close)
	return g
}

// config returns the address of the gate, and the certificate that its clients must trust.
func (g *gate) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
	return &rest.Config{Host: g.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// arm makes the gate kill the program at the nth write for which counts returns true.
func (g *gate) arm(n int, counts func(*http.Request) bool, kill func()) *shot {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shot = &shot{counts: counts, left: n, kill: kill, fired: make(chan struct{})}
	return g.shot
}

func (g *gate) disarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shot = nil
}

// answered inspects each response from the API server before the program receives it, and kills the program at the
// selected write.
func (g *gate) answered(response *http.Response) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shot
	if s == nil || !isWrite(response.Request) || response.StatusCode >= http.StatusBadRequest || !s.counts(response.Request) {
		return nil
	}
	if s.left--; s.left > 0 {
		return nil
	}
	g.shot = nil
	s.kill()
	close(s.fired)
	return http.ErrAbortHandler
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions && !r.URL.Query().Has("dryRun")
}
