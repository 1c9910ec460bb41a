package kit

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Interests finds the requests of a controller that a change of RBAC, of a ServiceAccount or of a Namespace concerns.
// The zero value is ready to use.
type Interests struct{ lookups rbac.Interests[ctrl.Request] }

// Track replaces listers by ones that track what one reconcile of a request looks up: changes of it wake the request.
// The caller passes the listers of its own copy of the Reconciler, and calls the returned function when the reconcile
// ends.
func (i *Interests) Track(req ctrl.Request, listers *rbac.Listers) (done func()) {
	*listers, done = i.lookups.Track(req, *listers)
	return done
}

// Concerned lists the requests that looked up what a change affects, and those of each OperatorGroup whose account or
// targets it affects. before is nil for a new object, after for a deleted one. of lists those of an OperatorGroup.
func (i *Interests) Concerned(ctx context.Context, cached scoped.Lookup, before, after client.Object, of handler.MapFunc) []ctrl.Request {
	groups, err := cached.Concerned(ctx, before, after)
	if err != nil {
		return nil // as in Matching
	}
	out := i.lookups.Concerned(before, after)
	for g := range groups {
		out = append(out, of(ctx, &groups[g])...)
	}
	return out
}
