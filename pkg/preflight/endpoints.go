package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step"
)

// endpoints contains the needs of the webhooks and aggregated APIs of a plan's ClusterServiceVersions, and the roles
// and bindings among the objects to be written for them.
type endpoints struct {
	needs  []Need
	grants []step.Step
	// parts are the Services and Secrets of the webhooks and aggregated APIs.
	parts []*unstructured.Unstructured
}

// Serving returns the objects that the csv controller writes for the webhooks and APIs of a plan's
// ClusterServiceVersions in addition to the steps: the roles and bindings that their Deployments need to serve, and
// their Services and Secrets.
func Serving(steps []step.Step) (access []step.Step, parts []*unstructured.Unstructured, err error) {
	c, err := collectEndpoints(steps, func(step.Step) bool { return false })
	return c.grants, c.parts, err
}

// ConfigError reports that the Subscription's config of a valid ClusterServiceVersion is invalid. Nothing is written until it is
// corrected, because the needs of the ClusterServiceVersion depend on it.
type ConfigError struct {
	// CSV is "ClusterServiceVersion <namespace>/<name>".
	CSV string
	Err error
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("spec.config of the Subscription is invalid for %s: %v", e.CSV, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// endpointsOf returns the endpoints of one ClusterServiceVersion. If the ClusterServiceVersion is invalid, the result
// contains only a Need with Invalid set. The error is a *ConfigError if only the Subscription's config is invalid.
func endpointsOf(s step.Step, scopes webhook.Scopes) (endpoints, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(s.Object, csv); err != nil {
		return endpoints{}, err
	}
	webhooks, apis := hooks.Validate(csv, nil)
	if wrong := cmp.Or(webhooks, apis); wrong != nil {
		return endpoints{needs: []Need{{Object: apply.Describe(s.Object), Invalid: wrong}}}, nil
	}
	webhooks, apis = hooks.Validate(csv, howInstalled(s).Config)
	if wrong := cmp.Or(webhooks, apis); wrong != nil {
		return endpoints{}, &ConfigError{CSV: apply.Describe(s.Object), Err: wrong}
	}
	p, err := plannedHooks(csv, s, scopes, nil)
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

// plannedHooks plans the webhooks and APIs of a ClusterServiceVersion. The plan is empty if the ClusterServiceVersion or the
// Subscription's config is invalid. taken has the same meaning as in hooks.Input.
func plannedHooks(csv *operatorsv1alpha1.ClusterServiceVersion, s step.Step, scopes webhook.Scopes, taken func(kind, namespace, name string) bool) (*hooks.Plan, error) {
	how := howInstalled(s)
	if webhooks, apis := hooks.Validate(csv, how.Config); webhooks != nil || apis != nil {
		return &hooks.Plan{}, nil
	}
	return hooks.New(hooks.Input{
		CSV: csv, Owner: s.Owner, Config: how.Config, Scopes: scopes, Taken: taken,
		Group: webhook.Group{Bounded: !how.Unbounded, Targets: how.Targets},
	})
}

// Supporting returns all objects that the csv controller writes for the webhooks and APIs of a ClusterServiceVersion: roles and
// bindings, Services, Secrets, webhook configurations and APIServices. taken has the same meaning as in hooks.Input. It returns
// none for a ClusterServiceVersion that is invalid, or whose Subscription's config is: the csv controller then writes none.
func Supporting(s step.Step, taken func(kind, namespace, name string) bool) ([]step.Step, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(s.Object, csv); err != nil {
		return nil, err
	}
	p, err := plannedHooks(csv, s, nil, taken)
	if err != nil || p.Empty() {
		return nil, err
	}
	var out []step.Step
	for _, render := range []func() ([]*unstructured.Unstructured, error){p.Access, p.Parts, p.Hooks} {
		objs, err := render()
		if err != nil {
			return nil, err
		}
		for _, obj := range objs {
			out = append(out, step.Step{Object: obj, Owner: s.Owner})
		}
	}
	return out, nil
}

// howInstalled returns the step's Install or, if it is nil, an Install with the targets in the object's annotation.
func howInstalled(s step.Step) step.Install {
	if s.Install != nil {
		return *s.Install
	}
	return step.Install{Targets: strings.Split(s.Object.GetAnnotations()[names.AnnotationTargetNamespaces], ",")}
}

// collectEndpoints returns the endpoints of all ClusterServiceVersions of a plan, except those that skip omits.
// Resources whose scope is unknown are treated as namespaced.
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

// omit removes needs that others already contains. Needs are compared by their causes.
func (c *endpoints) omit(others []Need) {
	known := map[string]bool{}
	for _, n := range others {
		known[n.Cause] = true
	}
	c.needs = slices.DeleteFunc(c.needs, func(n Need) bool { return known[n.Cause] })
}

// add appends the needs of the endpoints to needs, including those for writing their roles and bindings. r resolves
// role references.
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

// plannedScopes returns the scopes of the resources that CustomResourceDefinitions of the plan define.
func plannedScopes(steps []step.Step) webhook.Scopes {
	var crds []*unstructured.Unstructured
	for _, s := range steps {
		if s.IsCRD() {
			crds = append(crds, s.Object)
		}
	}
	return webhook.Defined(crds)
}
