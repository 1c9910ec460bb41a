package catalogsource

import (
	"context"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// watchTimeout bounds the wait for the first list of a kind.
const watchTimeout = 20 * time.Second

// lazyCache is a cache of kinds that are not watched until they are needed.
type lazyCache struct {
	cache.Cache
	notify kit.Notify
	// check reports whether the kinds can be listed, if that is not certain: a refused watch is not reported, and retried
	// forever.
	check func(context.Context) error

	mu      sync.Mutex
	missing []client.Object
}

func newLazyCache(mgr ctrl.Manager, o cache.Options, notify kit.Notify, kinds ...client.Object) (*lazyCache, error) {
	o.HTTPClient, o.Scheme, o.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
	cached, err := cache.New(mgr.GetConfig(), o)
	if err == nil {
		err = mgr.Add(cached)
	}
	if err != nil {
		return nil, fmt.Errorf("cache of %T: %w", kinds[0], err)
	}
	return &lazyCache{Cache: cached, notify: notify, check: func(context.Context) error { return nil }, missing: kinds}, nil
}

// watch returns once all kinds are watched and have been listed.
func (l *lazyCache) watch(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.missing) == 0 {
		return nil
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	for len(l.missing) > 0 {
		if err := kit.OnEvent(ctx, l.Cache, l.missing[0], l.notify); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		l.missing = l.missing[1:]
	}
	return nil
}
