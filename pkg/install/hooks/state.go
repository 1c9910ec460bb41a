package hooks

import (
	"fmt"

	"github.com/remit-olm/remit/pkg/install/apiservice"
)

// State is how a Deployment's webhooks, conversions and APIs stand, as a cache shows them.
type State struct {
	// Installed says that all are there as they should be.
	Installed bool
	// Available says that its APIs answer, as far as they are installed.
	Available bool
	// Problem is for people; "" where all is well.
	Problem string
}

// Check compares a Deployment's hooks with those that exist, without writing.
func (l *Live) Check(p *Plan, name string) (State, error) {
	hooks, err := p.hooks(name)
	if err != nil {
		return State{}, err
	}
	state := State{Installed: true, Available: true}
	for _, h := range hooks {
		have := l.object(h)
		if have == nil || !inPlace(have, h.Unstructured, p.in.Owner) {
			return State{Available: true, Problem: fmt.Sprintf("%s %q is not as the ClusterServiceVersion wants it", h.GetKind(), h.GetName())}, nil
		}
		if h.api == nil {
			continue
		}
		if ok, why := apiservice.Status(l.apiservice(h.GetName())); !ok && state.Available {
			state.Available, state.Problem = false, why
		}
	}
	for _, c := range p.conversions(name) {
		crd := l.crd(c.CRD)
		if convertible(p, c, crd) != nil || !c.InPlace(crd) {
			return State{Available: true, Problem: fmt.Sprintf("the conversion of CustomResourceDefinition %q is not as the ClusterServiceVersion wants it", c.CRD)}, nil
		}
	}
	return state, nil
}

// Surplus says that the lineage has something that the plan has not.
func (l *Live) Surplus(p *Plan) (bool, error) {
	objs, crds, err := l.surplus(p)
	return len(objs)+len(crds) > 0, err
}
