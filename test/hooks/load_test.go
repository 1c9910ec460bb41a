package hooks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// load continuously creates ConfigMaps that the webhooks for their namespace accept.
type load struct {
	t         *testing.T
	client    client.Client
	namespace string

	stop  context.CancelFunc
	group sync.WaitGroup

	mu       sync.Mutex
	calls    int
	longest  time.Duration
	failures []string
}

const workers = 2

// callPause is the pause between two calls of a worker, which leaves enough CPU time for the programs under test.
const callPause = 80 * time.Millisecond

func startLoad(t *testing.T, c *env.Cluster, namespace string) *load {
	t.Helper()
	config := rest.CopyConfig(c.Config())
	config.QPS = -1
	own, err := client.New(config, client.Options{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	l := &load{t: t, client: own, namespace: namespace, stop: stop}
	for range workers {
		l.group.Go(func() {
			for ctx.Err() == nil {
				l.call(ctx)
				time.Sleep(callPause)
			}
		})
	}
	return l
}

func (l *load) call(ctx context.Context) {
	begun := time.Now()
	err := l.client.Create(ctx, message(l.namespace, "hello"), client.DryRunAll)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.longest = max(l.longest, time.Since(begun))
	if err != nil {
		l.failures = append(l.failures, begun.Format("15:04:05.000")+" "+err.Error())
	}
}

// end stops the load and asserts that no creation failed.
func (l *load) end(what string) {
	l.t.Helper()
	l.stop()
	l.group.Wait()
	l.t.Logf("FIGURE %s: %d creates, %d failed, the longest took %s", what, l.calls, len(l.failures), l.longest.Round(time.Millisecond))
	require.Empty(l.t, some(l.failures))
	require.Greater(l.t, l.calls, 10)
}

// some returns at most the first five failures.
func some(failures []string) []string { return failures[:min(len(failures), 5)] }

// admittedByFailure lists the requests that were admitted in a namespace because a webhook did not respond.
func admittedByFailure(t *testing.T, c *env.Cluster, namespace string) []string {
	t.Helper()
	var out []string
	_, err := c.Audited(t.Context(), func(e audit.Event) bool {
		for key, value := range e.Annotations {
			if strings.HasPrefix(key, "failed-open.") && strings.Contains(e.RequestURI, "/namespaces/"+namespace+"/") {
				out = append(out, fmt.Sprintf("%s: %s=%s", e, key, value))
			}
		}
		return false
	})
	require.NoError(t, err)
	return out
}
