package preflight

import (
	"cmp"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step"
)

// endpoints describes the webhooks and aggregated APIs of a plan's ClusterServiceVersions: what they need, and which
// of these needs are roles and bindings.
type endpoints struct {
	needs  []Need
	grants []step.Step
	// parts are their Services and Secrets.
	parts []*unstructured.Unstructured
}

// Serving returns what the csv controller writes for the webhooks and APIs of a plan's ClusterServiceVersions in
// addition to the steps: the roles and bindings that their Deployments need to serve, and their Services and Secrets.
func Serving(steps []step.Step) (access []step.Step, parts []*unstructured.Unstructured, err error) {
	c, err := collectEndpoints(steps, func(step.Step) bool { return false })
	return c.grants, c.parts, err
}

// endpointsOf returns the needs of one ClusterServiceVersion. An invalid ClusterServiceVersion yields an invalid need,
// whichever account installs it. An invalid Subscription config yields none: it can still change, and the csv
// controller reports it.
func endpointsOf(s step.Step, scopes webhook.Scopes) (endpoints, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(s.Object, csv); err != nil {
		return endpoints{}, err
	}
	webhooks, apis := hooks.Validate(csv, nil)
	if wrong := cmp.Or(webhooks, apis); wrong != nil {
		return endpoints{needs: []Need{{Object: apply.Describe(s.Object), Invalid: wrong}}}, nil
	}
	how := howInstalled(s)
	if webhooks, apis := hooks.Validate(csv, how.Config); webhooks != nil || apis != nil {
		return endpoints{}, nil
	}
	p, err := hooks.New(hooks.Input{
		CSV: csv, Owner: s.Owner, Config: how.Config, Scopes: scopes,
		Group: webhook.Group{Bounded: !how.Unbounded, Targets: how.Targets},
	})
	if err != nil || p.Empty() {
		return endpoints{}, err
	}
	var out endpoints
	if out.needs, err = p.Needs(); err != nil {
		return endpoints{}, err
	}
	if out.parts, err = p.Parts(); err != nil {
		return endpoints{}, err
	}
	for _, n := range out.needs {
		if n.Grants != nil {
			out.grants = append(out.grants, step.Step{Object: n.Grants, Owner: s.Owner})
		}
	}
	return out, nil
}

// howInstalled returns the install that the step was built for or, if the step has none, what the plan shows of it.
func howInstalled(s step.Step) step.Install {
	if s.Install != nil {
		return *s.Install
	}
	return step.Install{Targets: strings.Split(s.Object.GetAnnotations()[names.AnnotationTargetNamespaces], ",")}
}

// collectEndpoints collects the needs of all ClusterServiceVersions of a plan. Resources whose scope the plan does not define are
// assumed to be namespaced.
func collectEndpoints(steps []step.Step, skip func(step.Step) bool) (endpoints, error) {
	scopes := plannedScopes(steps)
	var out endpoints
	for _, s := range steps {
		if !s.IsCSV() || skip(s) {
			continue
		}
		more, err := endpointsOf(s, scopes)
		if err != nil {
			return endpoints{}, err
		}
		out.needs, out.grants = append(out.needs, more.needs...), append(out.grants, more.grants...)
		out.parts = append(out.parts, more.parts...)
	}
	return out, nil
}

// add appends the needs, and those of what they grant; roles resolves role references.
func (c endpoints) add(needs []Need, r roles) []Need {
	for _, n := range c.needs {
		if n.Identities {
			n.Notes = []string{n.Cause + " of namespace " + n.Namespace + ": the account must have all permissions of each of them"}
		}
		needs = append(needs, n)
		if n.Grants != nil {
			needs = append(needs, r.needs(n.Grants)...)
		}
	}
	return needs
}

// plannedScopes returns the scopes of the resources that the plan's own CustomResourceDefinitions define.
func plannedScopes(steps []step.Step) webhook.Scopes {
	known := map[string]webhook.Scope{}
	for _, s := range steps {
		if !s.IsCRD() {
			continue
		}
		group, _, _ := unstructured.NestedString(s.Object.Object, "spec", "group")
		resource, _, _ := unstructured.NestedString(s.Object.Object, "spec", "names", "plural")
		scope, _, _ := unstructured.NestedString(s.Object.Object, "spec", "scope")
		known[resource+"."+group] = webhook.Namespaced
		if scope == "Cluster" {
			known[resource+"."+group] = webhook.Cluster
		}
	}
	return func(group, resource string) webhook.Scope { return known[resource+"."+group] }
}
