package execute

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// Occupied returns the collisions of the objects of some of the steps, which another controller writes after the plan: objects that exist
// and that the install did not create, and roles that a foreign binding refers to. It writes nothing. A ServiceAccount that another install
// of the namespace created is shared. The existing objects are not part of the result: each is judged as soon as it has been read, so that
// those in memory take at most FreeMemory.
func (e *Executor) Occupied(ctx context.Context, steps, some []step.Step) ([]State, error) {
	var rendered []*unstructured.Unstructured
	for _, s := range steps {
		rendered = append(rendered, s.Object)
	}
	room := semaphore.NewWeighted(FreeMemory)
	var out []State
	for i, o := range observe(ctx, some, func(ctx context.Context, s step.Step) observation { return e.occupant(ctx, s, rendered, room) }) {
		if o.fails() {
			return nil, o.err
		}
		if o.problem != nil {
			out = append(out, State{Step: some[i], Problem: o.problem})
		}
	}
	return out, nil
}

// occupant looks for the object of a step, and determines whether it collides. If it exists, it takes room until it has been judged.
func (e *Executor) occupant(ctx context.Context, s step.Step, rendered []*unstructured.Unstructured, room *semaphore.Weighted) (o observation) {
	taken := int64(0)
	defer func() { room.Release(taken) }()
	live, err := apply.LiveWithin(ctx, e.reader(s), s.Object, func(cost int64) error {
		if cost > FreeMemory {
			return &apply.TooLargeError{Object: apply.Describe(s.Object), Cost: cost, Limit: FreeMemory}
		}
		if err := room.Acquire(ctx, cost); err != nil {
			return fmt.Errorf("wait for memory: %w", err)
		}
		taken = cost
		return nil
	})
	if _, tooLarge := errors.AsType[*apply.TooLargeError](err); tooLarge {
		return observation{problem: err}
	}
	if err != nil || shares(State{Step: s, Live: live}) {
		return observation{err: err} // an error can mean that the cluster does not serve the kind
	}
	if o.problem = apply.Check(live, s.Object, s.Owner); o.problem == nil {
		o.problem = Roles{RBAC: e.RBAC, Owner: s.Owner, Rendered: rendered, Live: e.Facts}.CheckBindings(ctx, live, s.Object)
	}
	return o
}
