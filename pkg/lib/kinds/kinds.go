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
	// unservedFor is how long it is cached whether a kind is served.
	unservedFor = 10 * time.Minute
	// maxRemembered is the maximum number of cached kinds. maxName is the maximum length of their names, which could
	// otherwise be as long as a whole object.
	maxRemembered = 1000
	maxName       = validation.DNS1123SubdomainMaxLength
)

// failedFor is how long the failure to discover the kinds of a group is cached. A backend that does not answer takes the whole time of a
// request, in which a mapper answers no other caller that it does not know the answer for.
const failedFor = time.Minute

// Unserved caches which kinds the cluster serves, so that what a mapper already knows is not asked for while the mapper waits for a
// backend that another user has named. Unserved is safe for concurrent use.
type Unserved struct {
	// known contains a *meta.RESTMapping, which is nil for a kind that is not served. failed contains the errors of groups.
	known, failed *cache.LRUExpireCache
}

// lookupKey is the key of a cached result: a kind, or a resource in its group, and the state on which the result depends.
type lookupKey struct {
	kind     schema.GroupVersionKind
	resource string
	since    string
}

// NewUnserved returns an empty cache.
func NewUnserved(c clock.PassiveClock) *Unserved {
	return &Unserved{known: cache.NewLRUExpireCacheWithClock(maxRemembered, c), failed: cache.NewLRUExpireCacheWithClock(maxRemembered, c)}
}

// Serves reports whether the cluster serves a kind. since identifies the state on which the result depends. The result
// is cached for ten minutes, but only for the same since, so that an object that is waiting for
// the kind causes few requests. A failure is cached for a minute, for all kinds of the group and version. Kinds with an invalid version
// or an overlong name are never requested.
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
	if answer, isKnown := u.known.Get(key); isKnown {
		found, _ := answer.(*meta.RESTMapping)
		return found, nil
	}
	group := lookupKey{kind: schema.GroupVersionKind{Group: key.kind.Group, Version: key.kind.Version}, since: key.since}
	describe := func(err error) error {
		return fmt.Errorf("discover %s: %w", cmp.Or(key.resource, key.kind.String()), err)
	}
	if failed, ok := u.failed.Get(group); ok {
		err, _ := failed.(error)
		return nil, describe(err)
	}
	found, err := request()
	if err != nil && !meta.IsNoMatchError(err) {
		u.failed.Add(group, err, failedFor)
		return nil, describe(err)
	}
	u.known.Add(key, found, unservedFor)
	return found, nil
}
