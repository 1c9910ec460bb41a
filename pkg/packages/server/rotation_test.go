package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/catalog/web"
)

// stepped is a clock that reports each timer, so that a test can advance the time when the timer exists.
type stepped struct {
	*clocktesting.FakeClock
	timers chan time.Duration
}

func (s stepped) NewTimer(d time.Duration) clock.Timer {
	t := s.FakeClock.NewTimer(d)
	s.timers <- d
	return t
}

// caller sends requests as the kube-apiserver does: it trusts only the CAs that are published at the time, and opens a
// connection for each request.
type caller struct {
	*testing.T
	clock  clock.PassiveClock
	client http.Client
	mu     sync.Mutex
	bundle []byte
	// served contains the certificates that the server has used.
	served map[string]bool
}

func (c *caller) publish(_ context.Context, bundle []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bundle = bundle
	return nil
}

func (c *caller) verify(state tls.ConnectionState) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.bundle)
	c.served[state.PeerCertificates[0].SerialNumber.String()] = true
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: c.clock.Now()})
	return err
}

func (c *caller) certificates() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.served)
}

// result is the result of a request of a caller with this number.
type result struct {
	caller int
	err    error
}

// list sends requests until the context is done, and sends the result of each to the channel.
func (c *caller) list(ctx context.Context, number int, url string, results chan<- result) {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err == nil {
			var got *http.Response
			if got, err = c.client.Do(r); err == nil {
				err = got.Body.Close()
			}
		}
		select {
		case results <- result{number, err}:
		case <-ctx.Done():
			return
		}
	}
}

// The kube-apiserver can call package-server at any time while its certificate is rotated, and watches continue.
func TestRotatesItsCertificateWithoutAFailedRequest(t *testing.T) {
	now := stepped{clocktesting.NewFakeClock(time.Now()), make(chan time.Duration)}
	c := &caller{T: t, clock: now, served: map[string]bool{}}
	c.client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: c.verify}}
	s := servingWith(t, &web.Certificates{Clock: now, Publish: c.publish}, defaultPace)
	s.put(global, "c", record("c", "p0", "x"))
	s.complete()
	watching, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"ADDED p0@c"}, seen(t, watching, 1))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan result)
	const callers = 4
	for number := range callers {
		go c.list(ctx, number, s.Host+"/apis/packages.operators.coreos.com/v1/namespaces/n/packagemanifests", results)
	}
	const rotations = 5
	var after time.Duration
	var sent [callers]int // by caller, since the last timer
	for c.certificates() <= rotations {
		select {
		case r := <-results:
			require.NoError(t, r.err)
			sent[r.caller]++
		case after = <-now.timers:
			sent = [callers]int{}
		}
		if after > 0 && slices.Min(sent[:]) >= 2 { // all requests that began before the previous step have ended
			now.Step(after)
			after = 0
		}
		require.Less(t, slices.Max(sent[:]), 10_000, "the certificate is not rotated")
	}
	s.put(global, "c", record("c", "p1", "x"))
	require.ElementsMatch(t, []string{"ADDED p1@c", "DELETED p0@c"}, seen(t, watching, 2))
}
