package catalogsource

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxWatches bounds the Secrets of one namespace that are watched concurrently. Further pulls wait for their next attempt.
const maxWatches = 8

// secretReads contains the versions of the pull secrets that an attempt used, by name; "" means that the Secret does
// not exist. Unreadable Secrets are not included, because RBAC changes trigger a retry.
type secretReads map[string]string

// secretWatches watches pull secrets while a failed pull waits for its retry. It uses an identity that is allowed to
// read them; the controller identity is not.
type secretWatches struct {
	// watch is Options.WatchSecret.
	watch func(ctx context.Context, key types.NamespacedName, version string, changed func())

	mu    sync.Mutex
	reads map[retry]secretReads
	// running counts the watches by namespace.
	running map[string]int
}

// note records the Secrets that an attempt used.
func (w *secretWatches) note(pull retry, reads secretReads) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads == nil {
		w.reads, w.running = map[retry]secretReads{}, map[string]int{}
	}
	w.reads[pull] = reads
}

func (w *secretWatches) forget(pull retry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reads, pull)
}

// begin watches the Secrets of a pull, and retries the pull when one of them changes. The returned function stops the watches.
func (w *secretWatches) begin(ctx context.Context, namespace string, pull retry) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for name, version := range w.reads[pull] {
		if w.watch == nil || w.running[namespace] == maxWatches {
			break
		}
		w.running[namespace]++
		group.Go(func() {
			w.watch(ctx, types.NamespacedName{Namespace: namespace, Name: name}, version, pull.ask)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.running[namespace]--; w.running[namespace] == 0 {
				delete(w.running, namespace)
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}
