package kill

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// maxWrites is the maximum number of kills in a sweep.
const maxWrites = 40

// world is the program under test and its gate to the control plane.
type world struct {
	gate    *gate
	program *env.Program
	// name distinguishes the objects of the sweeps.
	name string
}

// newWorld starts the program that runs as this ServiceAccount.
func newWorld(t *testing.T, name, account string, args ...string) *world {
	t.Helper()
	w := &world{gate: newGate(t, cluster.Config()), name: name}
	w.program = cluster.Program(t, w.gate.config(), account, args...)
	w.start(t)
	return w
}

// start starts the program.
func (w *world) start(t *testing.T) {
	t.Helper()
	require.NoError(t, w.program.Start())
}

// asIdentity reports whether the program sent a request with the identity of an install, that is, with an account's token or by
// impersonating a user.
func (w *world) asIdentity(r *http.Request) bool {
	return r.Header.Get("Authorization") != "Bearer "+w.program.Token || r.Header.Get("Impersonate-User") != ""
}

func anyRequest(*http.Request) bool { return true }

// sweep runs a story repeatedly, killing the program one write later each time, until the story ends before the kill. It
// returns the number of kills. once runs the story with a kill after the nth write, and reports whether the program was killed.
func sweep(t *testing.T, once func(t *testing.T, n int) bool) int {
	t.Helper()
	for n := 1; n <= maxWrites; n++ {
		killed := false
		passed := t.Run(fmt.Sprintf("after write %d", n), func(t *testing.T) { killed = once(t, n) })
		if !killed || !passed {
			return n - 1
		}
	}
	t.Fatalf("more than %d writes", maxWrites)
	return 0
}

// firedOr waits until the program is killed or done succeeds, and reports whether the program was killed.
func (w *world) firedOr(t *testing.T, s *shot, done func(c *assert.CollectT)) bool {
	t.Helper()
	fired := func() bool {
		select {
		case <-s.fired:
			return true
		default:
			return false
		}
	}
	eventually(t, func(c *assert.CollectT) {
		if !fired() {
			done(c)
		}
	})
	w.gate.disarm()
	return fired()
}

func eventually(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	env.Eventually(t, check)
}

// madeOnce asserts that no object was created or deleted more than once. It returns the requests that created or deleted
// objects, as in audit.Changes.
func madeOnce(t *testing.T, events []audit.Event) []string {
	t.Helper()
	times := audit.Changes(events)
	for id, n := range times {
		require.Equal(t, 1, n, id)
	}
	return slices.Sorted(maps.Keys(times))
}
