package installplan

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

const (
	// unservedFor is how long a kind of Kubernetes' own counts as not served: only another API server changes that.
	unservedFor = 10 * time.Minute
	// maxUnserved is how many such kinds are remembered.
	maxUnserved = 1000
)

// builtin knows which kinds of Kubernetes' own groups the cluster does not serve. The mapper remembers the others.
type builtin struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[schema.GroupVersionKind]time.Time
}

// serves says whether the cluster serves a kind. What it does not is asked for again later, so that a plan that waits for it
// costs no request.
func (b *builtin) serves(mapper meta.RESTMapper, gvk schema.GroupVersionKind) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if until, ok := b.until[gvk]; ok && now.Before(until) {
		return false, nil
	}
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case err == nil:
		delete(b.until, gvk)
		return true, nil
	case !meta.IsNoMatchError(err):
		return false, fmt.Errorf("discover %s: %w", gvk, err)
	}
	if b.until == nil || len(b.until) >= maxUnserved {
		b.until = map[schema.GroupVersionKind]time.Time{}
	}
	b.until[gvk] = now.Add(unservedFor)
	return false, nil
}
