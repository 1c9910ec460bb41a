package silence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/env/blockage"
)

const (
	// settling is how long a blocked install may still retry if no watch can report that it is unblocked.
	settling = 130 * time.Second
	// silence is the time after settling in which no requests may be sent.
	silence = 25 * time.Second
)

// TestABlockedInstallIsSilent records the API server's requests while installs wait, each for a different reason.
func TestABlockedInstallIsSilent(t *testing.T) {
	all := blockage.All()
	tenants, releases := make([]*env.Tenant, len(all)), make([]func(), len(all))
	users := map[string]string{}
	namespaces := map[string]string{}
	for i, b := range all {
		tn := cluster.Tenant(t)
		releases[i] = b.Block(tn)
		tenants[i] = tn
		namespaces[tn.Namespace] = b.Name
		users[scoped.Username(tn.Account.Namespace, tn.Account.Name)] = b.Name
	}
	about := func(e audit.Event) string {
		if e.Object != nil && e.Object.Resource == "leases" || e.Verb == "watch" {
			return ""
		}
		if b := users[e.User.Username]; b != "" {
			return b
		}
		if cluster.ControllerIdentities().Is(e) && e.Object != nil {
			return namespaces[namespaceOf(*e.Object)]
		}
		return ""
	}
	wait(t, settling)
	from, err := cluster.AuditedUntilNow(t.Context(), 0)
	require.NoError(t, err)
	wait(t, silence)
	var sent []string
	_, _, err = cluster.AuditedFrom(t.Context(), from, func(e audit.Event) bool {
		if b := about(e); b != "" {
			sent = append(sent, fmt.Sprintf("%s: %s %s %s", b, e.UserAgent, e.Verb, e.RequestURI))
		}
		return false
	})
	require.NoError(t, err)
	sent = withoutOneRound(sent, retried(all)...)
	slices.Sort(sent)
	assert.Empty(t, sent, "%d requests:\n%s", len(sent), strings.Join(slices.Compact(slices.Clone(sent)), "\n"))

	for i, b := range all {
		releases[i]()
		tenants[i].Installed(b.Installs)
	}
}

// namespaceOf returns the namespace that an object belongs to. The name of an Operator, which is cluster-scoped, ends with it.
func namespaceOf(o audit.Object) string {
	if o.Resource == "operators" {
		return o.Name[strings.LastIndex(o.Name, ".")+1:]
	}
	return o.Namespace
}

// withoutOneRound removes, for each install that no watch can wake, the requests that one retry sends. The pauses
// between retries double up to five minutes, so at most one retry occurs during the silence. A retry writes nothing and
// reads each object once.
func withoutOneRound(sent []string, retried ...string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(sent, func(request string) bool {
		source, rest, _ := strings.Cut(request, ": ")
		writes := strings.Contains(rest, " patch ") && !strings.Contains(rest, "dryRun=All")
		if !slices.Contains(retried, source) || writes || seen[request] {
			return false
		}
		seen[request] = true
		return true
	})
}

func retried(all []blockage.Blockage) (out []string) {
	for _, b := range all {
		if b.Retried {
			out = append(out, b.Name)
		}
	}
	return out
}

// wait returns after d. The tests need a fixed duration, because no event shows that no requests are sent.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
