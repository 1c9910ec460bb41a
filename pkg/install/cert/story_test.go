package cert_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/install/cert"
)

// world simulates a Deployment with its Secret, its callers and a controller that may crash between any two of its
// writes. Callers observe a new caBundle with a lag.
type world struct {
	t      *testing.T
	rand   *rand.Rand
	policy cert.Policy
	now    time.Time
	lag    time.Duration

	data     map[string][]byte
	recorded []string
	hash     string // the annotation on the Deployment's Pod template
	pods     []pod
	callers  []caller

	trustedSince time.Time // kept only in memory, lost when the controller crashes
	writes       int
}

type pod struct {
	hash        string
	certificate []byte
}

type caller struct {
	bundle []byte
	// seen is the bundle that the caller uses. The caller observes changes in order, each with a lag.
	seen    []byte
	pending []change
}

type change struct {
	bundle []byte
	at     time.Time
}

// crashRate is the probability that the controller crashes before a write.
const crashRate = 0.1

func (w *world) crashes() bool {
	if w.rand.Float64() >= crashRate {
		return false
	}
	w.trustedSince = time.Time{}
	return true
}

func (w *world) observe() cert.Observed {
	o := cert.Observed{Now: w.now, Hosts: hosts, Data: w.data, Recorded: append([]string{w.hash}, w.recorded...), Running: len(w.pods) > 0}
	for _, c := range w.callers {
		o.Bundles = append(o.Bundles, c.bundle)
	}
	for _, p := range w.pods {
		o.Running = o.Running && p.hash == w.hash && w.hash == cert.Hash(w.data[cert.KeyCA])
	}
	if !w.trustedSince.IsZero() {
		o.TrustedFor = w.now.Sub(w.trustedSince)
	}
	return o
}

// reconcile simulates one reconcile. Its writes are in the order that Policy.Carry documents.
func (w *world) reconcile() {
	o := w.observe()
	d := w.policy.Decide(o)
	set, err := w.policy.Carry(d, o)
	require.NoError(w.t, err)
	if w.crashes() {
		return
	}
	if d.Action != cert.Keep {
		w.writes++
		w.recorded = slices.Concat(w.recorded, set.Hashes())
	}
	for i := range w.callers {
		if w.crashes() {
			return
		}
		w.callers[i].write(w, set.Trust())
	}
	w.remember(set)
	if w.crashes() {
		return
	}
	w.data = set.Data()
	if w.crashes() {
		return
	}
	w.recorded = set.Hashes()
	if w.crashes() {
		return
	}
	w.hash = set.Hash()
}

func (w *world) remember(set cert.Set) {
	if set.Next == nil {
		w.trustedSince = time.Time{}
	} else if w.trustedSince.IsZero() {
		w.trustedSince = w.now
	}
}

func (c *caller) write(w *world, bundle []byte) {
	if string(c.bundle) == string(bundle) {
		return
	}
	c.bundle = bundle
	c.pending = append(c.pending, change{bundle, w.now.Add(time.Duration(w.rand.Int64N(int64(w.lag))))})
}

// others simulates the other components: callers observe changes, and one Pod at a time is replaced or reloads the
// Secret.
func (w *world) others() {
	for i := range w.callers {
		c := &w.callers[i]
		for len(c.pending) > 0 && !w.now.Before(c.pending[0].at) {
			c.seen, c.pending = c.pending[0].bundle, c.pending[1:]
		}
	}
	i := w.rand.IntN(len(w.pods))
	certificate := w.data[cert.KeyCertificate]
	switch {
	case certificate == nil: // a Pod does not start without a Secret
	case w.rand.Float64() < 0.5:
		w.pods[i] = pod{w.hash, certificate}
	case w.rand.Float64() < 0.2:
		w.pods[i].certificate = certificate
	}
}

func (w *world) call() {
	for _, c := range w.callers {
		for _, p := range w.pods {
			require.NoError(w.t, serves(c.seen, p.certificate, hosts[1], w.now), "at %s", w.now)
		}
	}
}

// newWorld returns a world in which the install has completed.
func newWorld(t *testing.T, seed uint64, lag time.Duration) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), policy: cert.Policy{Life: 90 * 24 * time.Hour}, now: start, lag: lag}
	for w.hash == "" {
		w.reconcile()
	}
	certificate := w.data[cert.KeyCertificate]
	w.pods = []pod{{w.hash, certificate}, {w.hash, certificate}}
	w.callers = make([]caller, 3)
	for i := range w.callers {
		w.callers[i] = caller{bundle: w.data[cert.KeyCA], seen: w.data[cert.KeyCA]}
	}
	return w
}

// Ten certificate lifetimes pass, in small steps during a rotation and in large steps in between.
func TestNoCallFailsThroughTenExpiriesDespiteCrashes(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed, cert.DefaultSettle)
		for w.now.Before(start.Add(10 * w.policy.Life)) {
			w.reconcile()
			w.others()
			w.call()
			step := time.Duration(w.rand.Int64N(int64(15 * time.Second)))
			o := w.observe()
			if d := w.policy.Decide(o); d.Action == cert.Keep && d.After > time.Hour && o.Running {
				step = d.After
			}
			w.now = w.now.Add(step)
		}
		require.GreaterOrEqual(t, w.writes, 3*10, "each rotation has three writes")
		require.Less(t, w.writes, 3*15*3, "there are few additional writes")
	}
}

// If callers observe a new caBundle before a Pod starts, deleting the Secret while Pods use it does not cause failed
// calls.
func TestADeletedSecretIsReplacedWithoutAFailedCall(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed, 1)
		for range 5 {
			w.data = nil
			for range 60 {
				w.reconcile()
				w.now = w.now.Add(time.Second)
				w.others()
				w.call()
			}
			require.Len(t, w.recorded, 1, "the rotation is complete")
		}
	}
}
