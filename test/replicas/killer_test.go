package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
)

const (
	// replicas is the number of replicas of each program.
	replicas = 2
	// killInterval is the time between two kills.
	killInterval = 3 * time.Second
	// workFactor is how much longer than becoming the leader its work may take before the next kill. On an overloaded machine, both
	// take several times as long as usual, and programs that are killed before they have read their objects get nothing done.
	workFactor = 3
	// lease is the programs' lease duration. It is short, because each kill of a leader interrupts the program's work for this
	// long.
	lease = "3s"
	// leaderTimeout is the maximum delay of a kill while its program has no leader.
	leaderTimeout = 30 * time.Second
)

// killer kills one replica after the other and restarts it. Each round kills all replicas, in random order.
type killer struct {
	all    []*env.Program
	random *rand.Rand

	cancel context.CancelFunc
	done   sync.WaitGroup
	// kills and exits count how often a replica was killed, and how often one exited because it lost its Lease.
	kills, exits int
	// killed is the time of the last kill of each program, keyed by its ServiceAccount.
	killed map[string]time.Time
	err    error
}

// newKiller starts the replicas of all programs. The environment variable REPLICAS_SEED repeats the order of an earlier run.
func newKiller(t *testing.T, args map[string][]string) *killer {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("REPLICAS_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	fmt.Printf("replicas: REPLICAS_SEED=%d\n", seed)
	k := &killer{random: rand.New(rand.NewPCG(seed, seed)), killed: map[string]time.Time{}}
	for _, account := range programs {
		for range replicas {
			own := append([]string{"--leader-elect", "--leader-elect-lease-duration=" + lease}, args[account]...)
			if account != olm {
				own = append(own, "--cache-directory="+t.TempDir())
			}
			p := cluster.Program(t, cluster.Config(), account, own...)
			require.NoError(t, p.Start())
			k.all = append(k.all, p)
		}
	}
	return k
}

// start starts to kill replicas, until stop is called or the test ends.
func (k *killer) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	k.cancel = cancel
	k.done.Go(func() { k.err = k.run(ctx) })
	t.Cleanup(func() { cancel(); k.done.Wait() })
}

func (k *killer) run(ctx context.Context) error {
	ticks := time.NewTicker(killInterval)
	defer ticks.Stop()
	for {
		for _, i := range k.random.Perm(len(k.all)) {
			if !await(ctx, ticks) {
				return nil
			}
			if took := k.awaitLeader(ctx, k.all[i].Account); took > killInterval { // on a slow machine, a new leader needs time to work
				ticks.Reset(workFactor * took)
				if !await(ctx, ticks) {
					return nil
				}
			}
			if ctx.Err() != nil {
				return nil
			}
			if err := k.restart(k.all[i]); err != nil {
				return err
			}
			ticks.Reset(killInterval)
		}
	}
}

// await waits for a tick. It returns false if the context ends.
func await(ctx context.Context, ticks *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-ticks.C:
		return ctx.Err() == nil
	}
}

// awaitLeader waits until a replica of the program has renewed the Lease since the last kill, because a program whose replicas are
// killed before one of them leads never does any work. It returns how long that took.
func (k *killer) awaitLeader(ctx context.Context, account string) time.Duration {
	began := time.Now()
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, leaderTimeout, true, func(ctx context.Context) (bool, error) {
		held := &coordinationv1.Lease{}
		err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Home, Name: account}, held)
		return err == nil && ptr.Deref(held.Spec.HolderIdentity, "") != "" && held.Spec.RenewTime != nil &&
			held.Spec.RenewTime.After(k.killed[account]), nil
	})
	return time.Since(began)
}

// restart kills and restarts a replica. It also restarts those that exited.
func (k *killer) restart(victim *env.Program) error {
	for _, p := range k.all {
		switch {
		case p.Exited():
			k.exits++
		case p == victim:
			k.kills++
			p.Kill()
			k.killed[p.Account] = time.Now()
		default:
			continue
		}
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// stop stops killing replicas, and asserts that each program has changed its leader.
func (k *killer) stop(t *testing.T) {
	t.Helper()
	k.cancel()
	k.done.Wait()
	require.NoError(t, k.err)
	for _, account := range programs {
		held := &coordinationv1.Lease{}
		require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster.Home, Name: account}, held))
		changes := ptr.Deref(held.Spec.LeaseTransitions, 0)
		require.Greater(t, changes, int32(1), account)
		fmt.Printf("replicas: %s changed its leader %d times\n", account, changes)
	}
	fmt.Printf("replicas: %d kills; %d other exits\n", k.kills, k.exits)
}
