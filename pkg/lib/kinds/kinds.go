package kinds

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
)

// MaxUnserved is how many kinds of one plan or ClusterServiceVersion may be unserved before no more of it are looked at.
const MaxUnserved = 20

const (
	// unservedFor is how long a kind counts as not served.
	unservedFor = 10 * time.Minute
	// maxRemembered is how many such kinds are remembered.
	maxRemembered = 1000
)

// Unserved remembers the kinds that the cluster does not serve; the mapper remembers the others. It is for many goroutines.
type Unserved struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[question]time.Time
}

// question is about a kind, as long as what the answer depends on is the same.
type question struct {
	kind  schema.GroupVersionKind
	since string
}

// NewUnserved makes one that knows nothing.
func NewUnserved(c clock.PassiveClock) *Unserved {
	return &Unserved{clock: c, until: map[question]time.Time{}}
}

// Serves reports whether the cluster serves a kind. What it does not serve is asked for again after ten minutes, or at once for
// another since, which stands for what the answer depends on: so an object that waits for a kind costs no request. What can be no
// version is not asked for. Requests are made outside of the lock, so that nobody waits for another's.
func (u *Unserved) Serves(mapper meta.RESTMapper, gvk schema.GroupVersionKind, since string) (bool, error) {
	q := question{gvk, since}
	if len(validation.IsDNS1035Label(gvk.Version)) > 0 || u.isKnown(q) {
		return false, nil
	}
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case err == nil:
		return true, nil
	case !meta.IsNoMatchError(err):
		return false, fmt.Errorf("discover %s: %w", gvk, err)
	}
	u.remember(q)
	return false, nil
}

func (u *Unserved) isKnown(q question) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	until, ok := u.until[q]
	return ok && u.clock.Now().Before(until)
}

// remember forgets the oldest where there are too many.
func (u *Unserved) remember(q question) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.until[q]; !ok && len(u.until) >= maxRemembered {
		var oldest question
		for known, until := range u.until {
			if oldest == (question{}) || until.Before(u.until[oldest]) {
				oldest = known
			}
		}
		delete(u.until, oldest)
	}
	u.until[q] = u.clock.Now().Add(unservedFor)
}
