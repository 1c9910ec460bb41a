package controller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// notRead is a cache whose informers have or have not read their objects.
type notRead struct {
	cache.Informers

	synced bool
}

func (u *notRead) WaitForCacheSync(context.Context) bool { return u.synced }

// The program remit-olm was ready although it could not list a kind.
func TestAProgramIsReadyOnceItsCachesAreRead(t *testing.T) {
	u := &notRead{}
	ready, request := cachesRead(u), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	require.ErrorIs(t, ready(request), errReading)
	u.synced = true
	require.NoError(t, ready(request))
}
