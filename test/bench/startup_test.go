package bench

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

const (
	// settling is the time without reconciles after which a restarted program has reconciled everything. It is longer than any
	// controller waits for more events.
	settling = 12 * time.Second
	// polling is the interval at which a restarted program is observed, and the precision of the results.
	polling = 200 * time.Millisecond
)

// restarted are the programs that are restarted, by the names of their executables.
var restarted = []string{"catalog", "olm"}

// startup is what a program does after its start.
type startup struct {
	// ready is the time from the start until the program reports that it is ready, and done is the time until it has finished its
	// last reconcile and its last request.
	ready, done time.Duration
	// after is the memory after that.
	after memory
	// sent are all requests after the start, except watches and those for Leases, and writes are those that change objects.
	sent, writes requests
}

// restart ends a program and observes its replacement until all objects have been reconciled. The program ends as it does when its Pod
// is deleted, so it releases its Lease.
func (f *fleet) restart(program string) startup {
	f.tb.Helper()
	account := "remit-" + program
	f.quiet(f.tb)
	from := f.offset()
	old := programs(f.tb, f.cluster)[program]
	require.NotZero(f.tb, old, program)
	require.NoError(f.tb, syscall.Kill(old, syscall.SIGTERM))
	until(f.tb, func() bool { return isOther(programs(f.tb, f.cluster)[program], old) })
	start := time.Now()
	until(f.tb, func() bool { return f.cluster.IsReady(f.tb.Context(), account) })
	s := startup{ready: time.Since(start)}
	s.done = f.settled(account).Sub(start)
	s.after = memoryOf(programs(f.tb, f.cluster)[program])
	s.sent = f.sentSince(from)
	for _, e := range s.sent {
		s.done = max(s.done, e.Answered.Sub(start))
		if f.isStored(e) {
			s.writes = append(s.writes, e)
		}
	}
	return s
}

func isOther(pid, old int) bool { return pid != 0 && pid != old }

// until waits until a condition is true.
func until(tb testing.TB, isTrue func() bool) {
	tb.Helper()
	require.Eventually(tb, isTrue, env.Patience, polling/4)
}

// settled waits until a program has reconciled everything, and returns when it had.
func (f *fleet) settled(account string) time.Time {
	f.tb.Helper()
	last, finished := time.Now(), 0
	for deadline := time.Now().Add(patience); time.Since(last) < settling; time.Sleep(polling) {
		now, pending, err := f.cluster.Work(f.tb.Context(), account)
		if err != nil || now == 0 || now != finished || pending > 0 {
			last, finished = time.Now(), now
		}
		require.True(f.tb, time.Now().Before(deadline), "%s still reconciles: %d finished, %d pending, %v", account, now, pending, err)
	}
	return last
}

// isStored reports whether a request changes objects in the API server, even if it was rejected. Reviews, requests for tokens and those
// to package-server do not. The Event that reports a new holder of a Lease counts as a request for the Lease.
func (f *fleet) isStored(e audit.Event) bool {
	if !e.IsWrite() || e.Object == nil {
		return false
	}
	o := e.Object
	elected := o.Resource == "events" && o.APIGroup == "" && o.Namespace == f.cluster.Home
	return !elected && !strings.HasPrefix(o.APIGroup, "auth") && !strings.HasPrefix(o.APIGroup, "packages.") && o.Subresource != "token"
}

// offset returns the offset in the audit log after all requests that have been completed so far.
func (f *fleet) offset() int64 {
	f.tb.Helper()
	from, err := f.cluster.AuditedUntilNow(f.tb.Context(), f.read)
	require.NoError(f.tb, err)
	return from
}

// sentSince returns the requests of Remit after an offset in the audit log, except watches and requests for Leases.
func (f *fleet) sentSince(from int64) requests {
	f.tb.Helper()
	identities := f.cluster.ControllerIdentities()
	sent, _, err := f.cluster.AuditedFrom(f.tb.Context(), from, func(e audit.Event) bool { return ours(identities, e) })
	require.NoError(f.tb, err)
	return sent
}
