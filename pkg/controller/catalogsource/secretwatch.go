package catalogsource

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxWatches bounds the Secrets of one namespace that are watched at once; pulls beyond it wait for their next try.
const maxWatches = 8

// secretReads are the pull secrets that a try was made with, by name, each with its version; "" is one that was not
// there. Those that could not be read are left out: RBAC tells when they can be.
type secretReads map[string]string

// secretWatches notice changes of pull secrets while a pull that failed pauses, and only then, as whoever may read
// them: self may not.
type secretWatches struct {
	// watch returns when the Secret is not of that version any more, which it tells, when ctx ends, or when it may
	// or can not be watched; nil watches none.
	watch func(ctx context.Context, key types.NamespacedName, version string, changed func())

	mu    sync.Mutex
	reads map[retry]secretReads
	// running counts those of a namespace.
	running map[string]int
}

// note remembers what a try was made with.
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

// begin watches the Secrets that a pull was tried with, and has it tried again when one of them changes. The
// function that it returns ends that.
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
