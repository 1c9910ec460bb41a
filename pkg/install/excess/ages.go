package excess

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// settling is the maximum time for which objects without an owner are not reported, because the garbage collector usually
// deletes them soon after their owner. It is also the grace period of webhooks, which concern the requests of other users: until
// then, the controller of an owner has narrowed them.
const settling = time.Minute

// Ages record since when this process has observed that objects without an owner exceed the account. Objects of one key, such
// as a namespace, are recorded together. The zero value is ready to use.
type Ages struct {
	seen keyed.Map[string, map[types.UID]time.Time]
}

// Plan is what to do about objects without an owner.
type Plan struct {
	// Reported are the objects to report, and Due those of them whose grace period is over.
	Reported, Due []Object
	// Ends is the end of the first grace period that is not over yet.
	Ends time.Time
	// After is the time until the Plan changes; 0 if it does not change without an event.
	After time.Duration
}

// Plan records the objects that exceed the account at a time, and forgets the other ones of the key. claimed reports whether an
// object appears to have an owner, which reports and removes it first. Because labels determine this, it only doubles the time.
func (a *Ages) Plan(key string, now time.Time, grace time.Duration, found []Object, claimed func(client.Object) bool) Plan {
	if len(found) == 0 {
		a.seen.Delete(key)
		return Plan{}
	}
	since := a.seen.Change(key, func(seen *map[types.UID]time.Time) {
		next := map[types.UID]time.Time{}
		for _, o := range found {
			next[o.Object.GetUID()] = now
			if at, ok := (*seen)[o.Object.GetUID()]; ok {
				next[o.Object.GetUID()] = at
			}
		}
		*seen = next
	})
	var out Plan
	wake := func(at time.Time) {
		if left := at.Sub(now); out.After == 0 || left < out.After {
			out.After = left
		}
	}
	for _, o := range found {
		at, grace := since[o.Object.GetUID()], grace
		if len(o.Intercepts) > 0 {
			grace = min(grace, settling)
		}
		reported, ends := at.Add(min(grace/2, settling)), at.Add(grace)
		if claimed(o.Object) {
			reported, ends = ends, ends.Add(grace)
		}
		switch {
		case now.Before(reported):
			wake(reported)
			continue
		case now.Before(ends):
			wake(ends)
			if out.Ends.IsZero() || ends.Before(out.Ends) {
				out.Ends = ends
			}
		default:
			out.Due = append(out.Due, o)
		}
		out.Reported = append(out.Reported, o)
	}
	return out
}

// Forget forgets the objects of a key.
func (a *Ages) Forget(key string) { a.seen.Delete(key) }
