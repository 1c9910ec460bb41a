package kill

import (
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

// gate is a proxy between the program and the API server. It counts writes that the API server has done,
// and at one of them kills the program instead of telling it.
type gate struct {
	*httptest.Server

	mu   sync.Mutex
	shot *shot
}

// shot is one kill to come.
type shot struct {
	// counts says which writes count, and left how many of them are still to pass, the fatal one included.
	counts func(*http.Request) bool
	left   int
	kill   func()
	// fired is closed once the program is dead.
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
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: g.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	g.EnableHTTP2 = true
	g.StartTLS() // client-go sends no token without TLS
	t.Cleanup(g.Close)
	return g
}

// ca is the certificate that clients of the gate are to trust.
func (g *gate) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
}

// arm prepares the kill at the nth write that counts.
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

// answered sees each answer before the program does.
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
