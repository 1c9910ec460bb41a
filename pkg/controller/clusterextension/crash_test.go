package clusterextension_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// killer ends a program like SIGKILL after its n-th write: the API server has stored it, but the program does not get the
// response, and sends nothing any more.
type killer struct {
	mu    sync.Mutex
	left  int
	died  chan struct{}
	wrote int
}

func (k *killer) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dying{k, next} })
}

type dying struct {
	*killer
	next http.RoundTripper
}

var errKilled = errors.New("the program was killed")

// RoundTrip implements http.RoundTripper.
func (d *dying) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isWrite(req) {
		select {
		case <-d.died:
			return nil, errKilled
		default:
		}
		return d.next.RoundTrip(req)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return nil, errKilled
	}
	resp, err := d.next.RoundTrip(req)
	d.wrote++
	if d.left--; d.left == 0 {
		close(d.died)
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, errKilled
	}
	return resp, err
}

// isWrite reports whether a request changes an object that belongs to an extension, its report or its status.
func isWrite(req *http.Request) bool {
	return req.Method != http.MethodGet && !strings.Contains(req.URL.RawQuery, "dryRun") &&
		!strings.Contains(req.URL.Path, "reviews") && !strings.Contains(req.URL.Path, "/events") && !strings.Contains(req.URL.Path, "/token")
}

// After the program was killed following any of its writes, the next one reaches the same state, and creates nothing twice.
func TestResumesAfterEachWrite(t *testing.T) {
	p := prepare(t, controlplane.Start(t))
	for _, story := range []struct {
		name    string
		upgrade bool
	}{{"install", false}, {"upgrade", true}} {
		for n := 1; ; n++ {
			w := givenOn(t, p)
			w.grantAll()
			w.publish("1.0.0", "", csv, crd, configMap)
			from := w.logEnd()
			w.install()
			if story.upgrade {
				stop := p.run(t)
				w.awaitInstalled("1.0.0")
				stop()
				w.publish("1.1.0", "op.v1.0.0", strings.Replace(csv, "verbs: [get, list, watch]", "verbs: [get]", 1), crd, otherConfigMap)
				from = w.logEnd()
			}
			k := &killer{left: n, died: make(chan struct{})}
			stop := p.run(t, k.wrap)
			version := map[bool]string{false: "1.0.0", true: "1.1.0"}[story.upgrade]
			finished := w.diedOrInstalled(k, version)
			stop()
			if finished {
				require.Greater(t, n, 8, "%s: too few writes", story.name)
				break
			}
			stop = p.run(t)
			w.awaitInstalled(version)
			w.checkOwners()
			stop()
			w.createdOnce(from)
			require.NoError(t, w.admin.Delete(t.Context(), w.get()))
		}
	}
}

// diedOrInstalled waits until the program has died or installed the version, and reports whether it did the latter.
func (w *world) diedOrInstalled(k *killer, version string) (installed bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		select {
		case <-k.died:
			return true
		default:
		}
		is := w.get().Status.Install
		installed = is != nil && is.Bundle.Version == version
		return installed
	}, patience, tick)
	return installed
}

// createdOnce checks that no object was created or deleted twice.
func (w *world) createdOnce(from int64) {
	w.t.Helper()
	seen := map[string]bool{}
	changes := func(e audit.Event) bool {
		return w.sentAs(e) && e.Wrote() && e.Object != nil && e.Object.Resource != "selfsubjectreviews" && (e.Created() || e.Verb == "delete")
	}
	for _, e := range w.requests(from, changes) {
		key := e.Verb + " " + e.Object.Resource + " " + e.Object.Namespace + "/" + e.Object.Name
		require.False(w.t, seen[key], "%s", e)
		seen[key] = true
	}
}
