package installplan

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
)

const (
	// unservedFor is how long a kind of Kubernetes' own counts as not served: only another API server changes that.
	unservedFor = 10 * time.Minute
	// maxUnserved is how many such kinds are remembered.
	maxUnserved = 1000
	// maxUnservedOfPlan is how many kinds of a plan may be unserved before no more of it are looked at.
	maxUnservedOfPlan = 20
)

// builtin knows which kinds of Kubernetes' own groups the cluster does not serve. The mapper remembers the others.
type builtin struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[schema.GroupVersionKind]time.Time
}

// serves says whether the cluster serves a kind. What it does not is asked for again later, so that a plan that waits for it
// costs no request. Bundles invent kinds: what can be no version is not asked for, and nobody waits for another's request.
func (b *builtin) serves(mapper meta.RESTMapper, gvk schema.GroupVersionKind) (bool, error) {
	if len(validation.IsDNS1035Label(gvk.Version)) > 0 || b.isKnown(gvk) {
		return false, nil
	}
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case err == nil:
		return true, nil
	case !meta.IsNoMatchError(err):
		return false, fmt.Errorf("discover %s: %w", gvk, err)
	}
	b.remember(gvk)
	return false, nil
}

func (b *builtin) isKnown(gvk schema.GroupVersionKind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[gvk]
	return ok && b.clock.Now().Before(until)
}

// remember forgets the oldest where there are too many.
func (b *builtin) remember(gvk schema.GroupVersionKind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = map[schema.GroupVersionKind]time.Time{}
	}
	if _, ok := b.until[gvk]; !ok && len(b.until) >= maxUnserved {
		var oldest schema.GroupVersionKind
		for known, until := range b.until {
			if oldest.Empty() || until.Before(b.until[oldest]) {
				oldest = known
			}
		}
		delete(b.until, oldest)
	}
	b.until[gvk] = b.clock.Now().Add(unservedFor)
}
