package controller

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestRenewalKeepsTheRatiosOfTheDefaults(t *testing.T) {
	deadline, retry := renewal(DefaultLeaseDuration)
	require.Equal(t, []time.Duration{10 * time.Second, 2 * time.Second}, []time.Duration{deadline, retry})
	deadline, retry = renewal(3 * time.Second)
	require.Equal(t, []time.Duration{2 * time.Second, 400 * time.Millisecond}, []time.Duration{deadline, retry})
}

// A program that ends because its caches are not read in two minutes, which is the default, never starts as long as the objects are stored.
func TestProgramsWaitForTheirCaches(t *testing.T) {
	mgr, err := NewManager(apiServer(t, nil), ManagerOptions{UserAgent: "test", Namespace: "remit"})
	require.NoError(t, err)
	require.Equal(t, cacheSyncTimeout, mgr.GetControllerOptions().CacheSyncTimeout)
	require.Greater(t, cacheSyncTimeout, 5*time.Minute)
}

// A backend that does not answer would otherwise stop the mapper of all controllers for as long as the API server lets it.
func TestDiscoveryHasATimeout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	var deadline time.Time
	c := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		deadline, _ = r.Context().Deadline()
		return nil, errors.New("no answer")
	})}
	mapper, err := newMapper(&rest.Config{Host: server.URL}, c)
	require.NoError(t, err)
	_, err = mapper.RESTMapping(schema.GroupKind{Group: "slow.example.com", Kind: "K"}, "v1")
	require.ErrorContains(t, err, "no answer")
	require.WithinRange(t, deadline, time.Now(), time.Now().Add(discoveryTimeout))
	require.Zero(t, c.Timeout, "other requests have no timeout, because watches do not end")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
