package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
)

// auditLag bounds how long the API server may take to log a request.
const auditLag = 30 * time.Second

// ControllerIdentities returns the controller identities on this cluster.
func (c *Cluster) ControllerIdentities() audit.Identities {
	return audit.Identities{Namespace: c.Home, Catalogs: c.Catalogs, Users: []string{
		scoped.Username(c.Home, names.ServiceAccountCatalog),
		scoped.Username(c.Home, names.ServiceAccountOLM),
	}}
}

// Audited returns the matching requests among all that were answered so far.
func (c *Cluster) Audited(ctx context.Context, match func(audit.Event) bool) ([]audit.Event, error) {
	out, _, err := c.AuditedFrom(ctx, 0, match)
	return out, err
}

// AuditedFrom is Audited from an offset of the audit log; it returns the offset at which to continue.
func (c *Cluster) AuditedFrom(ctx context.Context, offset int64, match func(audit.Event) bool) ([]audit.Event, int64, error) {
	mark, err := c.mark(ctx)
	if err != nil {
		return nil, offset, err
	}
	var out []audit.Event
	next := offset
	err = wait.PollUntilContextTimeout(ctx, tick, auditLag, true, func(context.Context) (bool, error) {
		seen := false
		var err error
		next, err = audit.From(c.AuditLog, next, func(e audit.Event) error {
			seen = seen || strings.HasSuffix(e.RequestURI, mark)
			if match(e) {
				out = append(out, e)
			}
			return nil
		})
		return seen, err
	})
	if err != nil {
		return nil, offset, fmt.Errorf("audit log: %w", err)
	}
	return out, next, nil
}

// CheckIdentities checks all requests sent so far by the controller identities against the closed list of the security model.
// It returns the number of requests by identity; it is an error if there are none.
func (c *Cluster) CheckIdentities(ctx context.Context) ([]string, error) {
	identities := c.ControllerIdentities()
	counts, outside := map[string]int{}, map[string]bool{}
	_, err := c.Audited(ctx, func(e audit.Event) bool {
		if !identities.Is(e) {
			return false
		}
		kind := "reads"
		if e.AsksToWrite() {
			kind = "writes"
		}
		counts[e.User.Username+" "+kind]++
		if !identities.Allows(e) {
			outside[e.String()] = true
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, who := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%6d %s", counts[who], who))
	}
	switch {
	case len(outside) > 0:
		err = fmt.Errorf("requests that the controller identities may not send: %q", slices.Sorted(maps.Keys(outside)))
	case len(out) == 0:
		err = fmt.Errorf("the audit log has no request of %q", identities.Users)
	}
	return out, err
}

// RunTests runs a package's tests, checks Remit's requests against the closed list, prints their number, and stops
// the cluster. It returns the exit code of the process.
func (c *Cluster) RunTests(m *testing.M) int {
	code := m.Run()
	counts, err := c.CheckIdentities(context.Background())
	for _, line := range counts {
		fmt.Println("audit:", line)
	}
	if err = errors.Join(err, c.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		code = 1
	}
	return code
}

// mark sends a request with a unique name. All requests that were answered before precede it in the log, or are next
// to it.
func (c *Cluster) mark(ctx context.Context) (string, error) {
	name := "audit-mark-" + rand.String(10)
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Home, Name: name}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("mark the audit log: %w", err)
	}
	return "/" + name, nil
}

// Writes returns the write requests sent as the tenant's account, including rejected ones.
func (tn *Tenant) Writes() []audit.Event {
	tn.T.Helper()
	user := scoped.Username(tn.Account.Namespace, tn.Account.Name)
	events, _, err := tn.Cluster.AuditedFrom(tn.T.Context(), tn.Since, func(e audit.Event) bool {
		return e.User.Username == user && e.IsWrite()
	})
	require.NoError(tn.T, err)
	return events
}

// NothingWritten asserts that no request sent as the account could have changed anything. No other identity may write
// for an install, which a test over the whole audit log verifies for the controller identities.
func (tn *Tenant) NothingWritten() {
	tn.T.Helper()
	require.Empty(tn.T, tn.Writes())
}
