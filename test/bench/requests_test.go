package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// requests contains the audit events of requests that were sent as a controller identity, as a tenant's account or as the
// user of a ClusterExtension, except watches and requests for leases.
type requests []audit.Event

// stillness is the time without requests after which an install counts as finished.
const stillness = 1500 * time.Millisecond

func ours(self audit.Identities, e audit.Event) bool {
	if e.Verb == "watch" || e.Object != nil && e.Object.Resource == "leases" {
		return false
	}
	return self.Is(e) || strings.HasSuffix(e.User.Username, ":"+env.AccountName)
}

// mark returns the number of requests sent so far.
func mark(b testing.TB) int {
	b.Helper()
	return len(sent(b))
}

// sent returns all requests recorded so far. Each call decodes only what was added to the audit log since the last one.
func sent(b testing.TB) requests {
	b.Helper()
	added, next, err := cluster(b).AuditedFrom(context.Background(), shared.read, func(e audit.Event) bool { return ours(cluster(b).ControllerIdentities(), e) })
	require.NoError(b, err)
	shared.sent, shared.read = append(shared.sent, added...), next
	return shared.sent
}

func between(b testing.TB, from, to int) requests {
	b.Helper()
	return sent(b)[from:to]
}

// quiet waits until no requests are sent for the duration stillness.
func quiet(b testing.TB) {
	b.Helper()
	for before := -1; ; {
		now := mark(b)
		if now == before {
			return
		}
		before = now
		time.Sleep(stillness)
	}
}

// table counts the requests by identity, verb and resource.
func (r requests) table() []string {
	counts := map[string]int{}
	for _, e := range r {
		who := e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
		switch {
		case e.Impersonated != nil:
			who = "user of the extension"
		case who == env.AccountName:
			who = "account"
		}
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
		counts[line]++
	}
	var out []string
	for line, n := range counts {
		out = append(out, fmt.Sprintf("%s %d", line, n))
	}
	slices.Sort(out)
	return out
}
