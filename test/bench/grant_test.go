package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// grants is the number of plans that are unblocked one after the other, and fleetGrants the number in a fleet.
	grants, fleetGrants = 200, 60
	// limitGrant is the limit of the time from a grant to the next write.
	limitGrant = "p99 < 0.5 s"
)

// BenchmarkGrant measures the time from the API server's response to a grant until the API server receives the first write as
// the account. Both times are from the audit log. All plans are blocked before the first grant, and successive plans use
// different kinds of grants.
func BenchmarkGrant(b *testing.B) {
	times := map[string][]time.Duration{}
	refused := 0
	for range b.N {
		var plans []*waiting
		for n := range grants {
			plans = append(plans, newWaiting(b, env.Pieces()[n%len(env.Pieces())]))
		}
		for _, w := range plans {
			w.tn.PermissionsMissing()
		}
		for _, w := range plans {
			w.tn.UntilComplete(func() { w.piece.Last(w.tn, w.rules) })
		}
		events := written(b, cluster(b), 0)
		for _, w := range plans {
			took, refusals := w.took(events)
			times[w.piece.Name] = append(times[w.piece.Name], took)
			refused += refusals
		}
	}
	all := reportGrants(b, fmt.Sprintf("From a grant to the account's next successful write, after %d refused writes in total:", refused), env.Pieces(), times)
	b.ReportMetric(0, "ns/op")
	record(row{name: fmt.Sprintf("from a grant to the next write, p50 / p99 / maximum of %d", len(all)), result: inMillis(all, 0.5, 0.99, 1), limit: limitGrant})
}

// grants subscribes further namespaces, whose accounts are missing permissions, and then grants these, one namespace after the other.
// It returns the times from the grant to the account's next write, by the kind of grant, and how many writes were refused before.
func (f *fleet) grants(b *testing.B) (times map[string][]time.Duration, refused int) {
	b.Helper()
	all := make([]*waiting, fleetGrants)
	each(len(all), helpers, func(i int) {
		w := &waiting{tn: f.cluster.Tenant(b), piece: env.Pieces()[i%len(env.Pieces())], rules: env.ReleaseRules()}
		w.tn.Group(env.AccountName, w.tn.Namespace)
		w.piece.Before(w.tn, w.rules)
		w.tn.Subscribe("fleet", "fleet-0", "stable", f.fromGlobal)
		w.tn.PermissionsMissing()
		all[i] = w
	})
	f.quiet(b)
	from := f.offset()
	for _, w := range all {
		w.tn.UntilComplete(func() { w.piece.Last(w.tn, w.rules) })
	}
	events := written(b, f.cluster, from)
	times = map[string][]time.Duration{}
	for _, w := range all {
		took, refusals := w.took(events)
		times[w.piece.Name] = append(times[w.piece.Name], took)
		refused += refusals
	}
	return times, refused
}

// reportGrants reports the times from a grant to the next write, by the name of the kind of grant. It returns all times.
func reportGrants(b *testing.B, title string, pieces []env.Piece, times map[string][]time.Duration) (all []time.Duration) {
	b.Helper()
	var lines []string
	for _, piece := range pieces {
		of := times[piece.Name]
		lines = append(lines, fmt.Sprintf("%-52s %s", piece.Name, quantiles(of)))
		all = append(all, of...)
	}
	report(title, append(lines, fmt.Sprintf("%-52s %s", "all", quantiles(all))))
	b.ReportMetric(float64(quantile(all, 0.5).Microseconds())/1000, "ms/p50")
	b.ReportMetric(float64(quantile(all, 0.99).Microseconds())/1000, "ms/p99")
	b.ReportMetric(float64(quantile(all, 1).Microseconds())/1000, "ms/max")
	return all
}

// waiting is a plan that needs one more RBAC change.
type waiting struct {
	tn    *env.Tenant
	piece env.Piece
	rules []rbacv1.PolicyRule
}

func newWaiting(b *testing.B, piece env.Piece) *waiting {
	b.Helper()
	w := &waiting{tn: cluster(b).Tenant(b), piece: piece}
	w.tn.Group(env.AccountName, w.tn.Namespace)
	w.rules = w.tn.GrantAllButNamespaced(content(b, 0), bundle.Package)
	piece.Before(w.tn, w.rules)
	w.tn.Catalog("catalog", image(0))
	subscribe(w.tn)
	return w
}

// written returns all writes after an offset of the audit log, except dry runs, in the order in which the API server received them.
func written(tb testing.TB, c *env.Cluster, from int64) []audit.Event {
	tb.Helper()
	events, _, err := c.AuditedFrom(context.Background(), from, func(e audit.Event) bool {
		return e.IsWrite() && !strings.Contains(e.RequestURI, "dryRun=")
	})
	require.NoError(tb, err)
	slices.SortFunc(events, func(x, y audit.Event) int { return x.Received.Compare(y.Received) })
	return events
}

// took returns the time from the administrator's last RBAC change to the account's first successful write, and how many
// of the account's writes were refused before that.
func (w *waiting) took(events []audit.Event) (took time.Duration, refused int) {
	w.tn.T.Helper()
	account := scoped.Username(w.tn.Account.Namespace, w.tn.Account.Name)
	return toFirstWrite(w.tn.T, events, account, func(e audit.Event) bool { return e.User.Username == account })
}

// toFirstWrite returns the time from the administrator's last RBAC change to the first successful write as an identity, and how
// many of its writes were refused before that. Only one identity at a time gets its last missing permission, so the last change
// is the grant to this identity.
func toFirstWrite(tb testing.TB, events []audit.Event, name string, isSender func(audit.Event) bool) (took time.Duration, refused int) {
	tb.Helper()
	var granted time.Time
	for _, e := range events {
		switch {
		case isGrant(e):
			granted = e.Answered
		case isSender(e) && e.Response.Code >= 400:
			refused++
		case isSender(e):
			require.False(tb, granted.IsZero(), "%s was written before the grant", e)
			return e.Received.Sub(granted), refused
		}
	}
	require.Fail(tb, "nothing was written", name)
	return 0, 0
}

// isGrant reports whether the administrator wrote an RBAC object. It excludes aggregation by the control plane and
// writes by Remit.
func isGrant(e audit.Event) bool {
	return e.Object != nil && e.Object.APIGroup == rbacv1.GroupName && !strings.HasPrefix(e.User.Username, "system:")
}

func quantile(times []time.Duration, q float64) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[int(q*float64(len(times)-1)+0.5)]
}

func quantiles(times []time.Duration) string {
	round := func(q float64) time.Duration { return quantile(times, q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("%4d  p50 %8s  p99 %8s  max %8s", len(times), round(0.5), round(0.99), round(1))
}
