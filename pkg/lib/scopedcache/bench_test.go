package scopedcache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// BenchmarkRead compares reads from the cache with those from controller-runtime's cache, for a namespace with 20 Secrets. It
// measures them with one claim, and with a thousand additional claims for objects. The caches take turns in short rounds, and
// the results are the medians of the rounds, so that they can be compared even if other processes use the CPU.
func BenchmarkRead(b *testing.B) {
	config := rest.CopyConfig(controlplane.Shared(b).Config())
	admin, err := client.New(config, client.Options{})
	require.NoError(b, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	require.NoError(b, admin.Create(b.Context(), ns))
	for i := range 20 {
		require.NoError(b, admin.Create(b.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: fmt.Sprint("s", i)}, Data: map[string][]byte{"a": make([]byte, 1000)},
		}))
	}
	namespaces := map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{ns.Name: {}}}}
	theirs, err := cache.New(config, cache.Options{ByObject: namespaces})
	require.NoError(b, err)
	single, err := cache.New(config, cache.Options{})
	require.NoError(b, err)
	contenders := []contender{
		{"controller-runtime/cluster", single}, {"controller-runtime/namespaces", theirs},
		{"scopedcache/1", scoped(b, config, ns.Name, 0)}, {"scopedcache/1000", scoped(b, config, ns.Name, 1000)},
	}
	for _, c := range contenders {
		go func() { _ = c.Start(b.Context()) }()
		require.True(b, c.WaitForCacheSync(b.Context()))
		require.NoError(b, c.List(b.Context(), &corev1.SecretList{}, client.InNamespace(ns.Name)))
	}
	get := func(c contender) error {
		return c.Get(b.Context(), client.ObjectKey{Namespace: ns.Name, Name: "s7"}, &corev1.Secret{})
	}
	list := func(c contender) error { return c.List(b.Context(), &corev1.SecretList{}, client.InNamespace(ns.Name)) }
	for _, readers := range []int{1, 8} {
		b.Run(fmt.Sprintf("Get/readers=%d", readers), func(b *testing.B) { takeTurns(b, contenders, readers, 100, get) })
		b.Run(fmt.Sprintf("List/readers=%d", readers), func(b *testing.B) { takeTurns(b, contenders, readers, 10, list) })
	}
}

type contender struct {
	name string
	cache.Cache
}

// takeTurns reports the median duration of a read for each cache. In each round, several concurrent readers read
// repeatedly.
func takeTurns(b *testing.B, contenders []contender, readers, times int, read func(contender) error) {
	b.Helper()
	took := map[string][]float64{}
	for b.Loop() {
		for _, at := range rand.Perm(len(contenders)) { // in random order, because the garbage of one cache is collected during the turn of the next
			c := contenders[at]
			var all errgroup.Group
			started := time.Now()
			for range readers {
				all.Go(func() error {
					for range times {
						if err := read(c); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(b, all.Wait())
			took[c.name] = append(took[c.name], float64(time.Since(started).Nanoseconds())/float64(readers*times))
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name+"-ns/read")
	}
}

// scoped returns a cache with a claim for one namespace and claims for single objects in other namespaces.
func scoped(b *testing.B, config *rest.Config, namespace string, objects int) *scopedcache.Cache {
	b.Helper()
	c, err := scopedcache.New(config, scopedcache.Options{})
	require.NoError(b, err)
	c.Ensure(b.Context(), owner("bench"), secrets(scopedcache.Namespace(namespace)))
	for i := range objects {
		c.Ensure(b.Context(), owner("bench"), secrets(scopedcache.Object(fmt.Sprint("other", i%100), fmt.Sprint("s", i))))
	}
	return c
}
