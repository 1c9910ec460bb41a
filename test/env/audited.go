package env

import (
	"bytes"
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

// auditLag is how long to wait for the API server to log a request.
const auditLag = 30 * time.Second

// ControllerIdentities returns the controller identities on this cluster.
func (c *Cluster) ControllerIdentities() audit.Identities {
	return audit.Identities{Namespace: c.Home, Catalogs: c.Catalogs, Users: []string{
		scoped.Username(c.Home, names.ServiceAccountCatalog),
		scoped.Username(c.Home, names.ServiceAccountOLM),
		scoped.Username(c.Home, names.ServiceAccountExtension),
		scoped.Username(c.Home, names.ServiceAccountPackageServer),
	}}
}

// Audited returns the matching requests among all requests completed so far.
func (c *Cluster) Audited(ctx context.Context, match func(audit.Event) bool) ([]audit.Event, error) {
	out, _, err := c.AuditedFrom(ctx, 0, match)
	return out, err
}

// AuditedFrom returns the matching requests after an offset of the audit log, and the offset at which to continue.
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
		return nil, offset, fmt.Errorf("read audit log: %w", err)
	}
	return out, next, nil
}

// AuditedUntilNow returns the offset in the audit log after all requests completed so far. It reads the log from the given
// offset, but does not decode the events, which takes most of the time of AuditedFrom.
func (c *Cluster) AuditedUntilNow(ctx context.Context, offset int64) (int64, error) {
	mark, err := c.mark(ctx)
	if err != nil {
		return offset, err
	}
	uri, next := []byte(mark+`"`), offset
	err = wait.PollUntilContextTimeout(ctx, tick, auditLag, true, func(context.Context) (bool, error) {
		seen := false
		var err error
		next, err = audit.Lines(c.AuditLog, next, func(line []byte) error {
			seen = seen || bytes.Contains(line, uri)
			return nil
		})
		return seen, err
	})
	if err != nil {
		return offset, fmt.Errorf("read audit log: %w", err)
	}
	return next, nil
}

// CheckIdentities checks all requests sent so far by the controller identities against the closed list of the security
// model. It returns the number of requests for each identity, or an error if there are no requests.
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
		err = fmt.Errorf("requests of the controller identities outside the closed list: %q", slices.Sorted(maps.Keys(outside)))
	case len(out) == 0:
		err = fmt.Errorf("the audit log has no requests from %q", identities.Users)
	}
	return out, err
}

// RunTests runs a package's tests, checks Remit's requests against the closed list, prints how many there were, and stops
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

// mark sends a request with a unique name. In the log, all requests that completed earlier precede it or are adjacent
// to it.
func (c *Cluster) mark(ctx context.Context) (string, error) {
	name := "audit-mark-" + rand.String(10)
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Home, Name: name}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("mark the audit log: %w", err)
	}
	return "/" + name, nil
}

// Writes returns the write requests sent as the tenant's account, including rejected ones. Those of the default account
// are limited to the tenant's namespace.
func (tn *Tenant) Writes() []audit.Event {
	tn.T.Helper()
	user := scoped.Username(tn.Account.Namespace, tn.Account.Name)
	events, _, err := tn.Cluster.AuditedFrom(tn.T.Context(), tn.Since, func(e audit.Event) bool {
		return e.User.Username == user && e.IsWrite() && (!tn.Cluster.IsCompat() || e.Object != nil && e.Object.Namespace == tn.Namespace)
	})
	require.NoError(tn.T, err)
	return events
}

// NothingWritten asserts that no request sent as the account could have changed an object, except those that describe its
// OperatorGroup. CheckIdentities verifies, over the whole audit log, that the controller identities do not write on behalf of
// installs either.
func (tn *Tenant) NothingWritten() {
	tn.T.Helper()
	require.Empty(tn.T, slices.DeleteFunc(tn.Writes(), audit.Event.DescribesGroup))
}

// UnnamedRequests describes the requests of Remit's programs whose user agents are not the name and version of the program.
func (c *Cluster) UnnamedRequests(ctx context.Context) ([]string, error) {
	found, err := c.Audited(ctx, func(e audit.Event) bool {
		program, ok := strings.CutPrefix(e.User.Username, scoped.Username(c.Home, ""))
		return ok && slices.Contains(c.ControllerIdentities().Users, e.User.Username) && !strings.HasPrefix(e.UserAgent, program+"/v")
	})
	var out []string
	for _, e := range found {
		out = append(out, fmt.Sprintf("%s (%s): %s", e.User.Username, e.UserAgent, e.RequestURI))
	}
	slices.Sort(out)
	return slices.Compact(out), err
}
