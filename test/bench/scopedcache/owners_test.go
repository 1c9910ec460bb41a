package scopedcache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// contender is a cache that is measured.
type contender struct {
	name string
	new  func(b *testing.B, config *rest.Config, f *fixture) cache.Cache
	// claim is called after the cache has started. It waits until the cache serves the objects of all owners.
	claim func(b *testing.B, c cache.Cache, f *fixture)
	// release ends the claims of all owners. It is nil if the cache cannot do that.
	release func(c cache.Cache, f *fixture)
}

var kinds = []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}

func ownerOf(key client.ObjectKey) scopedcache.OwnerRef {
	return scopedcache.OwnerRef{GVK: corev1.SchemeGroupVersion.WithKind("Owner"), Key: key, UID: types.UID(key.Name)}
}

// scoped returns a scopedcache in which each owner claims a scope of each kind.
func scoped(name string, scopeOf func(owner client.ObjectKey) scopedcache.Scope) contender {
	return contender{
		name: "scopedcache-" + name,
		new: func(b *testing.B, config *rest.Config, _ *fixture) cache.Cache {
			c, err := scopedcache.New(config, scopedcache.Options{Linger: -1, RecheckPeriod: -1})
			require.NoError(b, err)
			return c
		},
		claim: func(b *testing.B, c cache.Cache, f *fixture) {
			for _, key := range f.owned {
				for _, kind := range kinds {
					c.(*scopedcache.Cache).Ensure(b.Context(), ownerOf(key), scopedcache.Claim{Kind: kind, Scope: scopeOf(key)})
				}
			}
			for _, key := range f.owned {
				_, err := c.(*scopedcache.Cache).Wait(b.Context(), ownerOf(key))
				require.NoError(b, err)
			}
		},
		release: func(c cache.Cache, f *fixture) {
			for _, key := range f.owned {
				c.(*scopedcache.Cache).Release(ownerOf(key))
			}
		},
	}
}

// runtimes returns a controller-runtime cache.
func runtimes(name string, options func(*fixture) cache.Options) contender {
	return contender{
		name: "controller-runtime-" + name,
		new: func(b *testing.B, config *rest.Config, f *fixture) cache.Cache {
			c, err := cache.New(config, options(f))
			require.NoError(b, err)
			return c
		},
		claim: func(b *testing.B, c cache.Cache, _ *fixture) { require.True(b, c.WaitForCacheSync(b.Context())) },
	}
}

var contenders = []contender{
	runtimes("cluster", func(*fixture) cache.Options { return cache.Options{} }),
	runtimes("namespaces", func(f *fixture) cache.Options {
		namespaces := map[string]cache.Config{}
		for _, name := range f.namespaces {
			namespaces[name] = cache.Config{}
		}
		return cache.Options{DefaultNamespaces: namespaces}
	}),
	scoped("cluster", func(client.ObjectKey) scopedcache.Scope { return scopedcache.Cluster() }),
	scoped("namespaces", func(key client.ObjectKey) scopedcache.Scope { return scopedcache.Namespace(key.Namespace) }),
	scoped("objects", func(key client.ObjectKey) scopedcache.Scope { return scopedcache.Object(key.Namespace, key.Name) }),
}

// BenchmarkOwners measures the resources that a cache uses to serve two objects of each owner, and those that it still uses
// after the owners have released the objects.
func BenchmarkOwners(b *testing.B) {
	for _, size := range []struct{ owners, namespaces int }{{10, 10}, {100, 100}, {1000, 10}, {1000, 100}, {1000, 1000}} {
		b.Run(fmt.Sprintf("owners=%d/namespaces=%d", size.owners, size.namespaces), func(b *testing.B) {
			f := start(b, size.owners, size.namespaces)
			for _, c := range contenders {
				b.Run(c.name, func(b *testing.B) {
					for b.Loop() {
						c.measure(b, f)
					}
				})
			}
		})
	}
}

func (c contender) measure(b *testing.B, f *fixture) {
	b.Helper()
	sent := &requests{}
	config := rest.CopyConfig(f.config)
	config.Wrap(sent.wrap)
	idle, before := f.watches(b), measure()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	begun := time.Now()
	opened := c.new(b, config, f)
	heard := handle(ctx, b, opened)
	ended := make(chan error, 1)
	go func() { ended <- opened.Start(ctx) }()
	c.claim(b, opened, f)
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-until-live")
	b.ReportMetric(float64(sent.lists.Load()+sent.others.Load()), "requests-until-live")
	watches := f.watches(b) - idle
	b.ReportMetric(float64(watches), "watches")
	after := measure()
	b.ReportMetric(float64(after.bytes-before.bytes)/1024/float64(watches), "KiB/watch")
	b.ReportMetric(float64(after.goroutines-before.goroutines)/float64(watches), "goroutines/watch")
	c.measureEvents(b, f, heard)
	if len(f.owned) == 1000 && c.release != nil {
		measureRest(b, sent)
	}
	if c.release != nil {
		begun = time.Now()
		c.release(opened, f)
		wait(b, 50*time.Millisecond, "the end of all watches", func() bool { return f.watches(b) <= idle })
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-until-released")
		left := measure()
		b.ReportMetric(float64(left.bytes-before.bytes)/1024, "KiB-after-release")
		b.ReportMetric(float64(left.goroutines-before.goroutines), "goroutines-after-release")
	}
	cancel()
	require.NoError(b, <-ended)
	wait(b, 50*time.Millisecond, "the end of the cache", func() bool { return f.watches(b) <= idle })
}

// handle returns a channel that receives the names of Secrets that change.
func handle(ctx context.Context, b *testing.B, c cache.Cache) <-chan string {
	b.Helper()
	heard := make(chan string, 10_000)
	for _, kind := range kinds {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		require.NoError(b, err)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
			if secret, ok := after.(*corev1.Secret); ok {
				heard <- secret.Name
			}
		}})
		require.NoError(b, err)
	}
	return heard
}

// measureEvents measures the time from sending a change until a handler is called with it.
func (c contender) measureEvents(b *testing.B, f *fixture, heard <-chan string) {
	b.Helper()
	var took []time.Duration
	for i := range 300 {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = f.owned[i*7%len(f.owned)].Namespace, f.owned[i*7%len(f.owned)].Name
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":"%s %d"}}}`, c.name, time.Now().UnixNano())
		begun := time.Now()
		require.NoError(b, f.admin.Patch(b.Context(), secret, client.RawPatch(types.MergePatchType, patch)))
		for name := range heard {
			if name == secret.Name {
				break
			}
		}
		took = append(took, time.Since(begun))
	}
	b.ReportMetric(quantile(took, 0.5), "ms-event-p50")
	b.ReportMetric(quantile(took, 0.99), "ms-event-p99")
}

// measureRest counts the requests sent during a minute in which nothing happens.
func measureRest(b *testing.B, sent *requests) {
	b.Helper()
	watches, others := sent.watches.Load(), sent.lists.Load()+sent.others.Load()
	time.Sleep(time.Minute)
	b.ReportMetric(float64(sent.lists.Load()+sent.others.Load()-others), "requests/min")
	b.ReportMetric(float64(sent.watches.Load()-watches), "renewals/min")
}
