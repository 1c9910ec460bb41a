package kinds

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
)

// MaxUnserved bounds the unserved kinds of one plan or ClusterServiceVersion. Beyond that, its other kinds are not checked.
const MaxUnserved = 20

const (
	// unservedFor is how long the result for an unserved kind is cached.
	unservedFor = 10 * time.Minute
	// maxRemembered bounds the cached kinds, and maxName the length of their names, which can fill a whole object.
	maxRemembered = 1000
	maxName       = validation.DNS1123SubdomainMaxLength
)

// Unserved caches the kinds that the cluster does not serve; the mapper caches the others. It is safe for concurrent use.
type Unserved struct{ known *cache.LRUExpireCache }

// question is a kind and the state that the answer depends on.
type question struct {
	kind  schema.GroupVersionKind
	since string
}

// NewUnserved returns an empty cache.
func NewUnserved(c clock.PassiveClock) *Unserved {
	return &Unserved{known: cache.NewLRUExpireCacheWithClock(maxRemembered, c)}
}

// Serves reports whether the cluster serves a kind. An unserved kind is requested again after ten minutes, or
// immediately if since, which identifies the state that the answer depends on, differs: an object that waits for a kind
// therefore costs no requests. Invalid versions are not requested. Requests are made without holding the lock, so that
// callers do not wait for each other.
func (u *Unserved) Serves(mapper meta.RESTMapper, gvk schema.GroupVersionKind, since string) (bool, error) {
	q := question{gvk, since}
	if len(gvk.Group) > maxName || len(gvk.Kind) > maxName || len(validation.IsDNS1035Label(gvk.Version)) > 0 {
		return false, nil
	}
	if _, isKnown := u.known.Get(q); isKnown {
		return false, nil
	}
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case err == nil:
		return true, nil
	case !meta.IsNoMatchError(err):
		return false, fmt.Errorf("discover %s: %w", gvk, err)
	}
	u.known.Add(q, nil, unservedFor)
	return false, nil
}
