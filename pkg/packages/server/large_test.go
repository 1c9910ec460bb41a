package server

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/test/env/racing"
)

// heap returns the bytes of reachable objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A global catalog can have 100,000 packages. Only the index of the packages is in memory, and a client that reads the list in
// chunks needs neither much time nor much memory.
func TestListsAHundredThousandPackages(t *testing.T) {
	const (
		// indexBytes bounds the memory for one package, and pageTime the time for one page, on a busy machine.
		indexBytes, pageTime = 1000, 2 * time.Second
		chunk                = 500
	)
	if racing.Slowdown > 1 {
		t.Skip("with the race detector, the upload takes longer than the server allows")
	}
	s := serving(t)
	before := heap()
	from, to := io.Pipe()
	go func() {
		e, err := packages.NewEncoder(to, packages.Header{Digest: "d", Source: packages.Source{Namespace: global, Name: "large", UID: "u", Created: metav1.Now()}})
		for n := 0; err == nil && n < packages.MaxGlobalPackages; n++ {
			r := record("large", fmt.Sprintf("package-%06d", n), "x")
			r.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription = strings.Repeat("x", 800)
			err = e.Encode(r)
		}
		if err == nil {
			err = e.Close()
		}
		_ = to.CloseWithError(err) // always returns nil
	}()
	require.Equal(t, 204, s.send("PUT", "/namespaces/"+global+"/packagecatalogs/large/content", from))
	s.complete()
	stored := heap() - before
	require.Less(t, stored, int64(packages.MaxGlobalPackages*indexBytes))

	_, err := s.client.Namespace("n").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsRequestEntityTooLargeError(err), "without a limit, the list would not fit: %v", err)

	var slowest time.Duration
	var names, pages int
	var most int64
	for o := (metav1.ListOptions{Limit: chunk}); ; {
		began := time.Now()
		list, err := s.client.Namespace("n").List(t.Context(), o)
		require.NoError(t, err)
		slowest = max(slowest, time.Since(began))
		for i, item := range list.Items {
			require.Equal(t, fmt.Sprintf("package-%06d", names+i), item.GetName())
		}
		names, pages = names+len(list.Items), pages+1
		if o.Continue = list.GetContinue(); o.Continue == "" {
			break
		}
		if pages == 20 {
			most = heap() - before
			from, err := parsePosition(o.Continue) // continue near the end of the list
			require.NoError(t, err)
			names = packages.MaxGlobalPackages - 5*chunk
			from.Name = fmt.Sprintf("package-%06d", names-1)
			o.Continue = from.String()
		}
	}
	t.Logf("%d packages: %d MiB of index; %d pages read, the slowest in %s; at most %d MiB while they were listed", names, stored>>20, pages, slowest, most>>20)
	require.Equal(t, packages.MaxGlobalPackages, names)
	require.Less(t, slowest, pageTime)
	require.Less(t, most, stored+64<<20)
}
