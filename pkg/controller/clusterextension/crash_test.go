package clusterextension_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/test/env/audit"
)

// killer simulates a SIGKILL after the n-th write of a program: the API server has stored the write, but the program
// does not receive the response and sends no further requests. If n is 0, killer only counts the writes.
type killer struct {
	mu    sync.Mutex
	after int
	died  chan struct{}
	wrote int
}

// leastWrites is the number of writes that always precede the status that says that a version is installed: those of six
// objects, and one of the status. How many other statuses are written depends on timing.
const leastWrites = 7

func newKiller(after int) *killer { return &killer{after: after, died: make(chan struct{})} }

func (k *killer) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dying{k, next} })
}

// writes returns the number of writes so far.
func (k *killer) writes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wrote
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
	if d.after > 0 && d.wrote == d.after {
		return nil, errKilled
	}
	resp, err := d.next.RoundTrip(req)
	if d.wrote++; d.wrote == d.after {
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

// If the program is killed after any of its writes, the next program reaches the same state and creates nothing twice.
func TestResumesAfterEachWrite(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"install": "1.0.0", "upgrade": "1.1.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKiller(0)
			w, from := givenStory(t, version)
			stop := w.run(t, k.wrap)
			w.awaitInstalled(version)
			stop()
			w.createdOnce(from)
			writes := k.writes()
			require.Greater(t, writes, leastWrites, "too few writes")
			for n := 1; n <= writes; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					resumesAfter(t, version, n)
				})
			}
		})
	}
}

func resumesAfter(t *testing.T, version string, n int) {
	t.Helper()
	k := newKiller(n)
	w, from := givenStory(t, version)
	stop := w.run(t, k.wrap)
	died := w.diedOrInstalled(k, version)
	stop()
	require.True(t, died || n > leastWrites, "too few writes")
	stop = w.run(t)
	w.awaitInstalled(version)
	w.checkOwners()
	stop()
	w.createdOnce(from)
}

// givenStory returns a world whose own program, which is not running yet, will install a version. Version 1.1.0 is an
// upgrade from 1.0.0, which the shared program has installed. from is the offset in the audit log at which the program
// starts.
func givenStory(t *testing.T, version string) (w *world, from int64) {
	t.Helper()
	w = given(t)
	own := w.private(w.name)
	responsible := func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{labelProgram: w.name} }
	if version == "1.0.0" {
		w.grantAll()
		w.program = own
		w.publish("1.0.0", "", csv, crd, configMap)
		from = w.logEnd()
		w.install(responsible)
		return w, from
	}
	w.installed(csv, crd, configMap)
	w.await(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	w.edit(responsible)
	w.program = own
	from = w.logEnd()
	w.publish(version, "op.v1.0.0", strings.Replace(csv, "verbs: [get, list, watch]", "verbs: [get]", 1), crd, otherConfigMap)
	return w, from
}

// diedOrInstalled waits until the program has died or installed the version, and reports whether the program died. Both are
// possible, because the number of writes can vary.
func (w *world) diedOrInstalled(k *killer, version string) (died bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		select {
		case <-k.died:
			died = true
			return true
		default:
		}
		is := w.get().Status.Install
		return is != nil && is.Bundle.Version == version
	}, patience, tick)
	return died
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
