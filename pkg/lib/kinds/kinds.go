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

// MaxUnserved is the number of unserved kinds in one plan or ClusterServiceVersion after which the remaining kinds are
// not checked.
const MaxUnserved = 20

const (
	// unservedFor is how long the result for an unserved kind is cached.
	unservedFor = 10 * time.Minute
	// maxRemembered is the maximum number of cached kinds. maxName is the maximum length of their names, which could
	// otherwise be as long as a whole object.
	maxRemembered = 1000
	maxName       = validation.DNS1123SubdomainMaxLength
)

// Unserved caches the kinds that the cluster does not serve. The mapper that is passed to Serves caches the kinds that
// the cluster serves. Unserved is safe for concurrent use.
type Unserved struct{ known *cache.LRUExpireCache }

// question is the key of a cached result: a kind and the state on which the result depends.
type question struct {
	kind  schema.GroupVersionKind
	since string
}

// NewUnserved returns an empty cache.
func NewUnserved(c clock.PassiveClock) *Unserved {
	return &Unserved{known: cache.NewLRUExpireCacheWithClock(maxRemembered, c)}
}

// Serves reports whether the cluster serves a kind. since identifies the state on which the result depends. The result
// for an unserved kind is cached for ten minutes, but only for the same since, so that an object that is waiting for
// the kind causes few requests. Kinds with an invalid version or an overlong name are never requested. Requests are
// made without holding a lock, so that callers do not wait for each other.
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
