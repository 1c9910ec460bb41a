package hooks

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/webhook"
)

// State is the cached state of a Deployment's webhooks, conversions and APIs. The zero value means that there are no
// problems.
type State struct {
	// Missing is true if one does not exist in the desired state.
	Missing bool
	// Unavailable is true if an existing API does not answer.
	Unavailable bool
	// Problem is the message for users; "" if there is none.
	Problem string
}

// Check compares a Deployment's hooks with the live ones without writing.
func (l *Live) Check(p *Plan, name string) (State, error) {
	hooks, err := p.hooks(name)
	if err != nil {
		return State{}, err
	}
	state := State{}
	for _, h := range hooks {
		if !l.inPlace(p, h) {
			return State{Missing: true, Problem: fmt.Sprintf("%s %q does not match the ClusterServiceVersion", h.GetKind(), h.GetName())}, nil
		}
		if h.api == nil {
			continue
		}
		if ok, why := apiservice.Status(byName(l.apiservices, h.GetName())); !ok && !state.Unavailable {
			state.Unavailable, state.Problem = true, why
		}
	}
	for _, c := range p.conversions(name) {
		if !l.converts(p, c) {
			return State{Missing: true, Problem: fmt.Sprintf("the conversion of CustomResourceDefinition %q does not match the ClusterServiceVersion", c.CRD)}, nil
		}
	}
	return state, nil
}

// Has reports whether a webhook of the CSV exists in the desired state.
func (l *Live) Has(p *Plan, d *operatorsv1alpha1.WebhookDescription) bool {
	if d.Type == operatorsv1alpha1.ConversionWebhook {
		for _, c := range p.conversions(d.DeploymentName) {
			if slices.Contains(d.ConversionCRDs, c.CRD) && !l.converts(p, c) {
				return false
			}
		}
		return true
	}
	hooks, err := p.hooks(d.DeploymentName)
	if err != nil {
		return false
	}
	name := webhook.Name(d, p.in.Owner.Lineage)
	return slices.ContainsFunc(hooks, func(h hook) bool { return h.GetName() == name && l.inPlace(p, h) })
}

// inPlace reports whether a hook exists in the desired state.
func (l *Live) inPlace(p *Plan, h hook) bool {
	have := l.object(h)
	return have != nil && deployment.InPlace(have, h.Unstructured, p.in.Owner)
}

// converts reports whether a CustomResourceDefinition has a conversion of the plan.
func (l *Live) converts(p *Plan, c webhook.Conversion) bool {
	crd := byName(l.crds, c.CRD)
	return convertible(p, c, crd) == nil && c.InPlace(crd)
}

// Surplus reports whether the lineage has something that the plan does not contain.
func (l *Live) Surplus(p *Plan) (bool, error) {
	objs, crds, err := l.surplus(p)
	return len(objs)+len(crds) > 0, err
}
