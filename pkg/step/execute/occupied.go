package execute

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// Occupied returns the collisions of objects that another controller writes after the plan: objects that exist and that the install
// did not create, and roles that a foreign binding refers to. It writes nothing. A ServiceAccount that another install of the
// namespace created is shared.
func (e *Executor) Occupied(ctx context.Context, steps []step.Step) ([]State, error) {
	var rendered []*unstructured.Unstructured
	for _, s := range steps {
		rendered = append(rendered, s.Object)
	}
	var out []State
	for i, o := range observe(ctx, steps, e.live) {
		switch {
		case o.fails():
			return nil, o.err
		case o.err != nil: // the cluster does not serve the kind
			continue
		}
		state := State{Step: steps[i], Live: o.live}
		if shares(state) {
			continue
		}
		roles := Roles{RBAC: e.RBAC, Owner: state.Step.Owner, Rendered: rendered, Live: e.Facts}
		if state.Problem = apply.Check(o.live, state.Step.Object, state.Step.Owner); state.Problem == nil {
			state.Problem = roles.CheckBindings(ctx, o.live, state.Step.Object)
		}
		if state.Problem != nil {
			out = append(out, state)
		}
	}
	return out, nil
}
