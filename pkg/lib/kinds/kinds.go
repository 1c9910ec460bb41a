package kinds

import (
	"cmp"
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

// lookupKey is the key of a cached result: a kind, or a resource in its group, and the state on which the result depends.
type lookupKey struct {
	kind     schema.GroupVersionKind
	resource string
	since    string
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
	if len(validation.IsDNS1035Label(gvk.Version)) > 0 {
		return false, nil
	}
	found, err := u.lookup(lookupKey{kind: gvk, since: since}, func() (*meta.RESTMapping, error) {
		return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	})
	return found != nil, err
}

// Kind returns the mapping of a kind in its preferred version, or nil if the cluster does not serve it. Results are cached as
// those of Serves are.
func (u *Unserved) Kind(mapper meta.RESTMapper, kind schema.GroupKind, since string) (*meta.RESTMapping, error) {
	return u.lookup(lookupKey{kind: kind.WithVersion(""), since: since}, func() (*meta.RESTMapping, error) {
		return mapper.RESTMapping(kind)
	})
}

// Resource returns the mapping of a resource in its preferred version, or nil if the cluster does not serve it. Results are
// cached as those of Serves are. The group must not be the core group, because a mapper treats "" as any group.
func (u *Unserved) Resource(mapper meta.RESTMapper, resource schema.GroupResource, since string) (*meta.RESTMapping, error) {
	key := lookupKey{kind: schema.GroupVersionKind{Group: resource.Group}, resource: resource.Resource, since: since}
	return u.lookup(key, func() (*meta.RESTMapping, error) {
		gvk, err := mapper.KindFor(resource.WithVersion(""))
		if err != nil {
			return nil, err
		}
		return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	})
}

// lookup returns the result of request, or nil if the cluster does not serve it.
func (u *Unserved) lookup(key lookupKey, request func() (*meta.RESTMapping, error)) (*meta.RESTMapping, error) {
	if len(key.kind.Group) > maxName || len(key.kind.Kind) > maxName || len(key.resource) > maxName {
		return nil, nil
	}
	if _, isKnown := u.known.Get(key); isKnown {
		return nil, nil
	}
	found, err := request()
	switch {
	case err == nil:
		return found, nil
	case !meta.IsNoMatchError(err):
		return nil, fmt.Errorf("discover %s: %w", cmp.Or(key.resource, key.kind.String()), err)
	}
	u.known.Add(key, nil, unservedFor)
	return nil, nil
}
