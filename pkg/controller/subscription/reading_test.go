package subscription

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// lazy is the reader of a catalog that takes a certain time for each bundle.
type lazy struct {
	catalog.ContentReader
	takes func(bundle string) time.Duration
	read  map[string]int
}

func (l lazy) Content(ctx context.Context, pkg, channel, bundle string) (*catalog.Content, error) {
	l.read[bundle]++
	select {
	case <-time.After(l.takes(bundle)):
		return l.ContentReader.Content(ctx, pkg, channel, bundle)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Twenty Subscriptions of one namespace, whose registry takes half a minute for each bundle or never responds for some of them.
func TestAReconcileReadsBundlesForALimitedTime(t *testing.T) {
	const subs = 20
	for name, row := range map[string]struct {
		takes func(string) time.Duration
		// reconciles is the number of reconciles in which the plans are created.
		reconciles, plans int
	}{
		"a registry that is slow": {func(string) time.Duration { return 8 * time.Second }, 40, subs},
		"a registry that does not respond for the first half": {func(bundle string) time.Duration {
			if bundle < "op10" {
				return time.Hour
			}
			return time.Second
		}, 14, subs / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).Build()
				r := &Reconciler{Options: Options{Client: c, Clock: clock.RealClock{}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
				server := recorded.New(t, nil)
				snapshot := &catalog.Snapshot{Key: catalogKey, Digest: "a", Packages: map[string]*catalog.Package{}}
				read := map[string]int{}
				snapshot.Reader = lazy{greedy{}, row.takes, read}
				w := offering()
				store := &catalog.Store{}
				w.input.Catalogs, w.input.RBAC, w.tracked, w.input.Targets = store, server.RBAC(), server.RBAC(), []string{"ns"}
				for i := range subs {
					pkg := fmt.Sprintf("op%02d", i)
					snapshot.Packages[pkg] = &catalog.Package{Name: pkg, DefaultChannel: "stable",
						Bundles:  map[string]*catalog.Bundle{pkg + ".v1": {Name: pkg + ".v1", Package: pkg, Version: "1.0.0"}},
						Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: map[string]catalog.Entry{pkg + ".v1": {Name: pkg + ".v1"}}}}}
					sub := subscription(fmt.Sprint("uid", i), "")
					sub.Name, sub.Spec.Package = pkg, pkg
					w.subscriptions = append(w.subscriptions, *sub)
				}
				store.Put(snapshot)
				var err error
				for i := range row.reconciles {
					w.found, w.input.Reading = nil, &resolver.Reading{}
					began := time.Now()
					_, err = r.advance(t.Context(), w)
					require.LessOrEqual(t, time.Since(began), resolver.ReadTime, "reconcile %d", i)
				}
				require.Len(t, w.plans, row.plans)
				if row.plans == subs {
					require.NoError(t, err)
					return
				}
				var unread *resolver.ReadError
				require.True(t, errors.As(err, &unread), "the reconcile is retried: %v", err)
			})
		})
	}
}

func TestEachReconcileHasItsOwnReadTime(t *testing.T) {
	r := restart(t)
	seen := map[*resolver.Reading]bool{nil: true}
	for range 2 {
		w, err := r.gather(t.Context(), "ns", r.RBAC)
		require.NoError(t, err)
		require.False(t, seen[w.input.Reading])
		seen[w.input.Reading] = true
	}
}
