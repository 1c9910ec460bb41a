package hooks

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/webhook"
)

// State is the cached state of a Deployment's webhooks, conversions and APIs. In the zero value, all of them are in
// the desired state and available.
type State struct {
	// Missing is true if an object is missing or not in the desired state.
	Missing bool
	// Unavailable is true if an APIService exists but is not available.
	Unavailable bool
	// Problem is the message for users; "" if there is none.
	Problem string
}

// Check returns the state of a Deployment's webhooks, conversions and APIs according to the cache.
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

// Has reports whether a webhook or conversion of the CSV exists and is in the desired state.
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

// inPlace reports whether the live object of a hook exists and is in the desired state.
func (l *Live) inPlace(p *Plan, h hook) bool {
	have := l.object(h)
	return have != nil && deployment.InPlace(have, h.Unstructured, p.in.Owner)
}

// converts reports whether the lineage owns the live CustomResourceDefinition and it has the desired conversion.
func (l *Live) converts(p *Plan, c webhook.Conversion) bool {
	crd := byName(l.crds, c.CRD)
	return convertible(p, c, crd) == nil && c.InPlace(crd)
}

// Surplus reports whether the lineage has webhook configurations, APIServices or conversions that the plan does not
// contain.
func (l *Live) Surplus(p *Plan) (bool, error) {
	objs, crds, err := l.surplus(p)
	return len(objs)+len(crds) > 0, err
}
