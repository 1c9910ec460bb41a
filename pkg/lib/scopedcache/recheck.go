package scopedcache

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Recheck makes the API server check the permissions of all watches in a namespace again; "" stands for all namespaces. A watch
// that was requested or refused less than 1.1 s ago is requested again once 1.1 s have passed.
func (c *Cache) Recheck(namespace string) {
	for _, k := range c.allKinds() {
		k.recheck(namespace)
	}
}

// ReportForbidden reports the error of a write to the cache. If the error is Forbidden, the API server checks the
// permissions of the kind's watches in the namespace again.
func (c *Cache) ReportForbidden(err error, obj client.Object, namespace string) {
	if !apierrors.IsForbidden(err) {
		return
	}
	if key, keyErr := c.keyOf(obj); keyErr == nil {
		if k := c.known(key); k != nil {
			k.recheck(namespace)
			k.recheckServer(Namespace(namespace))
		}
	}
}

// recheckPeriod returns the interval at which watches are requested again; 0 means that only the API server ends
// watches.
func (c *Cache) recheckPeriod() time.Duration {
	switch {
	case c.options.RecheckPeriod < 0:
		return 0
	case c.options.RecheckPeriod > 0:
		return c.options.RecheckPeriod
	}
	period := time.Duration(c.counts.running.Load()) * time.Second / recheckRate
	return min(max(period, time.Minute), 5*time.Minute)
}

// recheck makes the server check the permissions of all watches in a namespace again; "" stands for all namespaces.
func (k *kind) recheck(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.each(func(n *node) {
		if n.feed != nil && (namespace == "" || n.scope.namespace == namespace) {
			n.feed.recheck()
		}
	})
}

// recheckServer makes the server check the permissions of the watch that serves a scope again, if that watch is wider.
func (k *kind) recheckServer(scope Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.server(scope); f != nil && f.scope != scope {
		f.recheck()
	}
}

// recheck ends a live watch, which then resumes where it stopped, and wakes a feed that is waiting. The caller must
// hold the mutex.
func (f *feed) recheck() {
	f.recheckNext = true
	if f.state == Live && f.stream != nil {
		f.recheckIfDue()
		return
	}
	f.tries = 0
	select {
	case f.hint <- struct{}{}:
	default:
	}
}

// recheckIfDue ends the watch if it must be requested again. If the watch has already ended, it ends the next one instead,
// unless the request for that one has not been sent yet.
func (f *feed) recheckIfDue() {
	if f.recheckNext {
		f.recheckNext = !f.stream.endAfter(0)
	}
}
