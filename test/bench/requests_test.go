package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// requests contains the audit events of requests that were sent as a controller identity, as a tenant's account or as
// the user of a ClusterExtension, except watches and requests for Leases.
type requests []audit.Event

// stillness is the time without requests after which an install counts as finished. It is longer than the controllers wait before they
// write the status of an Operator.
const stillness = 3 * time.Second

func ours(self audit.Identities, e audit.Event) bool {
	if e.Verb == "watch" || e.Object != nil && e.Object.Resource == "leases" {
		return false
	}
	return self.Is(e) || strings.HasSuffix(e.User.Username, ":"+env.AccountName)
}

// recorder reads requests from the audit log of a cluster.
type recorder struct {
	cluster *env.Cluster
	// all contains the requests in the log up to the offset read.
	all  requests
	read int64
}

// sent returns all requests recorded so far. Each call decodes only what has been added to the audit log since the last one.
func (r *recorder) sent(b testing.TB) requests {
	b.Helper()
	added, next, err := r.cluster.AuditedFrom(context.Background(), r.read, func(e audit.Event) bool { return ours(r.cluster.ControllerIdentities(), e) })
	require.NoError(b, err)
	r.all, r.read = append(r.all, added...), next
	return r.all
}

// quiet waits until no requests are sent for the duration stillness, and returns the number of requests sent so far.
func (r *recorder) quiet(b testing.TB) int {
	b.Helper()
	for before := -1; ; {
		now := len(r.sent(b))
		if now == before {
			return now
		}
		before = now
		time.Sleep(stillness)
	}
}

// mark returns the number of requests sent so far on the shared cluster.
func mark(b testing.TB) int {
	b.Helper()
	cluster(b)
	return len(shared.sent(b))
}

func between(b testing.TB, from, to int) requests {
	b.Helper()
	return shared.sent(b)[from:to]
}

func quiet(b testing.TB) {
	b.Helper()
	cluster(b)
	shared.quiet(b)
}

// table counts the requests by identity, verb and resource.
func (r requests) table() []string {
	counts := map[string]int{}
	for _, e := range r {
		counts[line(e)]++
	}
	var out []string
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprint(line, " ", counts[line]))
	}
	return out
}

// sequence lists the requests in the order in which the API server received them, with the time since the first one and the
// duration in milliseconds.
func (r requests) sequence() []string {
	sorted := slices.SortedFunc(slices.Values(r), func(a, b audit.Event) int { return a.Received.Compare(b.Received) })
	var out []string
	for _, e := range sorted {
		name := ""
		if e.Object != nil {
			name = e.Object.Name
		}
		out = append(out, fmt.Sprintf("%5d +%-4d %s %s", e.Received.Sub(sorted[0].Received).Milliseconds(), e.Answered.Sub(e.Received).Milliseconds(), line(e), name))
	}
	return out
}

// line describes a request by its identity, verb, resource and, if it was rejected, its status code.
func line(e audit.Event) string {
	who := sender(e)
	what := e.RequestURI
	if o := e.Object; o != nil {
		what = o.Resource
		if o.Subresource != "" {
			what += "/" + o.Subresource
		}
		if o.APIGroup != "" {
			what += "." + o.APIGroup
		}
	}
	if who == "account" {
		who += " (" + e.UserAgent + ")"
	}
	line := fmt.Sprintf("%-24s %-8s %s", who, e.Verb, what)
	if strings.Contains(e.RequestURI, "dryRun=") {
		line += " (dry run)"
	}
	if e.Response.Code >= 400 {
		line += fmt.Sprintf(" (%d)", e.Response.Code)
	}
	return line
}

// sender returns the program that sent a request, or describes the identity in whose name it was sent.
func sender(e audit.Event) string {
	who := e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
	switch {
	case e.Impersonated != nil:
		return "user of the extension"
	case who == env.AccountName:
		return "account"
	}
	return who
}
