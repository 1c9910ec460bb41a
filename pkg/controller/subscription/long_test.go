package subscription

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/resolver"
)

// pigeons returns Subscriptions to 15 packages, each of which must own one of only 14 kinds (the pigeonhole problem), so that
// their resolution exceeds any limit.
func pigeons() (resolver.Input, resolver.Namespace) {
	const holes = 14
	s := &catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, Digest: "d", Packages: map[string]*catalog.Package{}}
	var ns resolver.Namespace
	for i := range holes + 1 {
		p := &catalog.Package{Name: fmt.Sprint("p", i), DefaultChannel: "c", Bundles: map[string]*catalog.Bundle{},
			Channels: map[string]*catalog.Channel{"c": {Name: "c", Entries: map[string]catalog.Entry{}}}}
		for hole := range holes {
			b := &catalog.Bundle{Name: fmt.Sprintf("%s.v1.%d.0", p.Name, hole), Package: p.Name, Version: fmt.Sprintf("1.%d.0", hole),
				Properties: []catalog.Property{{Type: "olm.gvk", Value: json.RawMessage(fmt.Sprintf(`{"group": "g", "version": "v1", "kind": "K%d"}`, hole))}}}
			entry := catalog.Entry{Name: b.Name}
			if hole > 0 {
				entry.Replaces = fmt.Sprintf("%s.v1.%d.0", p.Name, hole-1)
			}
			p.Bundles[b.Name], p.Channels["c"].Entries[b.Name] = b, entry
		}
		s.Packages[p.Name] = p
		ns.Subjects = append(ns.Subjects, resolver.Subject{Subscription: &operatorsv1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: p.Name, UID: types.UID(p.Name)},
			Spec:       &operatorsv1alpha1.SubscriptionSpec{CatalogSource: "cat", CatalogSourceNamespace: "ns", Package: p.Name},
		}})
	}
	store := &catalog.Store{}
	store.Put(s)
	return resolver.Input{Namespace: "ns", Catalogs: store, Indexes: &resolver.Indexes{}, Visible: []types.NamespacedName{s.Key}}, ns
}

func keyWith(b byte) digest { return digest{b} }

func TestDelaysANamespaceThatExceedsItsLimits(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	l := newLongQueue(clock, &answers{})
	stop := func(key digest) {
		l.enqueue("ns", key, &job{asking: newKindRecorder(served{})})
		j := l.byNamespace["ns"].job
		l.line = nil
		l.finish("ns", key, j, resolver.Answer{}, &resolver.LimitError{Namespace: "ns"})
	}
	require.Nil(t, l.check("ns", keyWith(1), served{}), "the namespace has no state yet")

	stop(keyWith(1))
	got := l.check("ns", keyWith(1), served{})
	require.Equal(t, firstPause, got.after)
	require.Equal(t, reasonLimitExceeded, got.problem.Reason)
	require.Contains(t, got.problem.Message, "resolution of namespace ns was stopped")

	clock.SetTime(clock.Now().Add(firstPause))
	require.Nil(t, l.check("ns", keyWith(1), served{}), "the delay is over")
	stop(keyWith(1))
	require.Equal(t, 2*firstPause, l.check("ns", keyWith(1), served{}).after, "the next delay is longer")

	require.Nil(t, l.check("ns", keyWith(2), served{}), "the namespace's inputs changed")
	stop(keyWith(2))
	stop(keyWith(3))
	require.Equal(t, tryWindow, l.check("ns", keyWith(4), served{}).after, "the namespace's inputs change too often")
	l.drop("ns")
	require.Equal(t, tryWindow, l.check("ns", keyWith(4), served{}).after, "deleting all Subscriptions does not reset the tries")
	clock.SetTime(clock.Now().Add(tryWindow))
	require.Nil(t, l.check("ns", keyWith(4), served{}))
}

func TestDelaysAreLimited(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	l := newLongQueue(clock, &answers{})
	for range 100 {
		l.enqueue("ns", keyWith(1), &job{asking: newKindRecorder(served{})})
		l.finish("ns", keyWith(1), l.byNamespace["ns"].job, resolver.Answer{}, &resolver.LimitError{})
	}
	require.Equal(t, lastPause, l.check("ns", keyWith(1), served{}).after)
}

// A running resolution is canceled when its inputs change or no Subscriptions are left.
func TestCancelsOutdatedResolutions(t *testing.T) {
	for name, change := range map[string]func(l *longQueue){
		"all Subscriptions are deleted": func(l *longQueue) { l.drop("ns") },
		"one Subscription is deleted":   func(l *longQueue) { require.Nil(t, l.check("ns", keyWith(2), served{})) },
	} {
		t.Run(name, func(t *testing.T) {
			in, ns := pigeons()
			l := newLongQueue(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), &answers{})
			l.enqueue("ns", keyWith(1), &job{input: in, ns: ns, asking: newKindRecorder(served{})})
			require.Equal(t, &parked{}, l.check("ns", keyWith(1), served{}), "the namespace is queued")
			done := make(chan struct{})
			go func() {
				defer close(done)
				l.next(context.Background())
			}()
			require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.byNamespace["ns"].job.cancel != nil }, time.Minute, time.Millisecond)
			change(l)
			<-done
			r := l.byNamespace["ns"]
			require.Nil(t, r.job)
			require.Nil(t, r.stopped, "the resolution did not exceed its limits")
			require.Empty(t, r.tries, "the canceled resolution does not count as a try")
			require.Len(t, r.canceled, 1, "the resolution is recorded as canceled")
			require.Len(t, r.ran, 1)
		})
	}
}

// The namespace whose recent resolutions took the least time is resolved first.
func TestTheNextNamespaceHasTheLeastRecentUsage(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	l := newLongQueue(clock, &answers{})
	for _, namespace := range []string{"much", "little", "none"} {
		l.enqueue(namespace, keyWith(1), &job{asking: newKindRecorder(served{})})
	}
	l.account("much", time.Minute)
	l.account("little", time.Second)
	var order []string
	for range 3 {
		at := l.first()
		order = append(order, l.line[at])
		l.line = append(l.line[:at:at], l.line[at+1:]...)
	}
	require.Equal(t, []string{"none", "little", "much"}, order)
	l.line = []string{"much", "little", "none"}
	clock.SetTime(clock.Now().Add(tryWindow))
	require.Zero(t, l.first(), "old usage does not count, so the namespace that has waited longest is first")
}

// A canceled resolution has already used CPU time.
func TestFrequentCancellationsCountAsTries(t *testing.T) {
	l := newLongQueue(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), &answers{})
	for i := range byte(maxTries + maxCanceled) {
		require.Nil(t, l.check("ns", keyWith(i), served{}))
		l.enqueue("ns", keyWith(i), &job{asking: newKindRecorder(served{})})
	}
	got := l.check("ns", keyWith(maxTries+maxCanceled), served{})
	require.Equal(t, tryWindow, got.after)
	require.Equal(t, resolver.ErrorPreventedResolution, got.problem.Reason, "no limit was exceeded")
	require.Empty(t, l.line)
}

func TestCachesALongResolution(t *testing.T) {
	in, ns := pigeons()
	ns.Subjects = ns.Subjects[:3]
	known := &answers{}
	l := newLongQueue(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), known)
	l.enqueue("ns", keyWith(1), &job{input: in, ns: ns, asking: newKindRecorder(served{})})
	require.True(t, l.next(context.Background()))
	require.False(t, l.next(context.Background()))
	require.NotNil(t, known.find("ns", keyWith(1), served{}).answer)
	require.Nil(t, l.check("ns", keyWith(1), served{}))
}

// ended returns the journal of a process after n processes ended while they resolved a namespace.
func ended(t *testing.T, path, namespace string, n int) *journal.Journal {
	t.Helper()
	for range n {
		j, err := journal.Open(path, clock.RealClock{})
		require.NoError(t, err)
		time.Sleep(j.Wait(itemOf(namespace)))
		require.Zero(t, j.Begin(itemOf(namespace)))
	}
	j, err := journal.Open(path, clock.RealClock{})
	require.NoError(t, err)
	return j
}

// A long resolution is the largest computation that the objects of a namespace cause, and its reconcile has ended.
func TestALongResolutionIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	in, ns := pigeons()
	ns.Subjects = ns.Subjects[:3]
	l := newLongQueue(clock.RealClock{}, &answers{})
	l.journal = ended(t, path, "ns", 0)
	var records []byte
	l.served = func(context.Context) (now served, err error) {
		records, err = os.ReadFile(path)
		return served{}, err
	}
	l.enqueue("ns", keyWith(1), &job{input: in, ns: ns, asking: newKindRecorder(served{})})
	require.True(t, l.next(t.Context()))
	require.Regexp(t, `working 0 0 \d+ ns subscription/ns `, string(records))
	records, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(records), "working", "it is finished")
}

func TestTheLongResolutionsOfASuspendedNamespaceWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		in, ns := pigeons()
		ns.Subjects = ns.Subjects[:3]
		l := newLongQueue(clock.RealClock{}, &answers{})
		l.journal = ended(t, path, "ns", 2)
		ctx, cancel := context.WithCancel(t.Context())
		began, resolved := time.Now(), make(chan time.Duration, 3)
		l.served = func(context.Context) (served, error) {
			resolved <- time.Since(began)
			return served{}, nil
		}
		end := make(chan error)
		go func() { end <- l.Start(ctx) }()
		for _, namespace := range []string{"ns", "other"} {
			l.enqueue(namespace, keyWith(1), &job{input: in, ns: ns, asking: newKindRecorder(served{})})
		}
		require.Zero(t, <-resolved, "other namespaces do not wait")
		require.Equal(t, time.Minute+5*time.Second, <-resolved)
		synctest.Wait()
		require.Nil(t, l.byNamespace["ns"].job)
		cancel()
		require.NoError(t, <-end)
	})
}
