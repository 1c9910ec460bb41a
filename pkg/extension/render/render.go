package render

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Input contains everything that the objects of a ClusterExtension depend on. Bundle and Owner are required.
type Input struct {
	Bundle *bundle.Bundle
	// Owner identifies the ClusterExtension: its Extension, Package and Namespace are required. Without UID, objects have no
	// owner references.
	Owner  ownerutil.Owner
	Config Config
	// Tool issues the certificates of webhooks and APIs; nil means that Remit issues them.
	Tool *serving.Tool
	// Certificates returns the certificates that Remit has issued for a Deployment, or the zero Set; nil means that there
	// are none yet.
	Certificates func(deployment string) cert.Set
	// Spared lists Remit's own namespaces, which webhooks for all namespaces do not cover.
	Spared []string
	// Scopes and Holds have the same meaning as in webhook.Input. Scopes is not called for resources that the bundle defines.
	Scopes webhook.Scopes
	Holds  func(rbacv1.PolicyRule) bool
}

// Object is an object to apply.
type Object struct {
	*unstructured.Unstructured
	Phase Phase
	// Dropped lists the keys of labels and annotations that the bundle may not set.
	Dropped []string
	// Certified is true for the Service and Secret of a Deployment whose certificates Remit issues. hooks.Installer.Certify
	// writes them; in Objects, they contain no certificates.
	Certified bool
}

// Rendered contains what a ClusterExtension installs.
type Rendered struct {
	// Objects are sorted by phase, kind, namespace and name.
	Objects []Object
	// Targets are the namespaces that the operator watches, or [""] for all.
	Targets []string
	// Hooks is the plan from which webhooks, conversions, APIs and their certificates were rendered.
	Hooks *hooks.Plan
	// CSV is the bundle's ClusterServiceVersion in the install namespace. It is not an object of the install.
	CSV *operatorsv1alpha1.ClusterServiceVersion
	// Warnings contains the warnings of the bundle.
	Warnings []string
}

// In returns the objects of a phase.
func (r *Rendered) In(p Phase) []Object {
	var out []Object
	for _, o := range r.Objects {
		if o.Phase == p {
			out = append(out, o)
		}
	}
	return out
}

// Render returns the objects of a ClusterExtension. The error is a *ConfigError or *UnsupportedModesError, or describes another
// problem with the bundle.
func Render(in Input) (*Rendered, error) {
	csv := in.Bundle.CSV.DeepCopy()
	csv.Namespace = in.Owner.Namespace
	in.Owner.CSV = csv.Name
	targets, err := in.Config.Targets(csv, in.Owner.Namespace)
	if err != nil {
		return nil, err
	}
	if err := validate(in, csv); err != nil {
		return nil, fmt.Errorf("bundle %q: %w", csv.Name, err)
	}
	out := &Rendered{Targets: targets, CSV: csv, Warnings: in.Bundle.Warnings}
	if out.Hooks, err = in.hooks(csv, targets); err != nil {
		return nil, fmt.Errorf("bundle %q: %w", csv.Name, err)
	}
	for _, render := range []func(Input) error{out.addManifests, out.addDeployments, out.addHooks} {
		if err := render(in); err != nil {
			return nil, fmt.Errorf("bundle %q: %w", csv.Name, err)
		}
	}
	if err := out.finish(in.Owner); err != nil {
		return nil, fmt.Errorf("bundle %q: %w", csv.Name, err)
	}
	return out, nil
}

// hooks returns the plan for webhooks and APIs with the existing certificates. Webhooks are bounded: they intercept only what
// the identity can write itself.
func (in Input) hooks(csv *operatorsv1alpha1.ClusterServiceVersion, targets []string) (*hooks.Plan, error) {
	plan, err := hooks.New(hooks.Input{
		CSV: csv, Owner: in.Owner, Group: webhook.Group{Bounded: true, Targets: targets, Spared: in.Spared},
		Config: in.Config.Deployment, Tool: in.Tool, Scopes: in.scopes(), Holds: in.Holds,
	})
	if err != nil || in.Certificates == nil || plan.Outsourced() {
		return plan, err
	}
	for _, d := range plan.Served {
		plan.Use(d.Name, in.Certificates(d.Name))
	}
	return plan, nil
}

// scopes returns the scopes of the resources that the bundle's own CustomResourceDefinitions define, and Scopes for others.
func (in Input) scopes() webhook.Scopes {
	own := webhook.Defined(in.Bundle.Objects)
	if in.Scopes == nil {
		return own
	}
	return webhook.First(own, in.Scopes)
}

// addManifests adds the operator's RBAC and the bundle's own objects.
func (r *Rendered) addManifests(in Input) error {
	all, err := build.Extension(in.Bundle, in.Owner, r.Targets, r.Hooks.Conversions())
	if err != nil {
		return err
	}
	for _, obj := range all.Objects {
		r.Objects = append(r.Objects, Object{Unstructured: obj, Dropped: all.Dropped[obj]})
	}
	return nil
}

func (r *Rendered) addDeployments(in Input) error {
	all, err := deployment.Desired(deployment.Input{
		CSV: r.CSV, Owner: in.Owner, Group: deployment.TargetAnnotations(in.Owner.Namespace, r.Targets), Config: in.Config.Deployment,
		Pods: func(name string, pod *corev1.PodTemplateSpec) { r.Hooks.Mount(name, pod) },
	})
	if err != nil {
		return err
	}
	for _, d := range all {
		obj, err := apply.Object(d)
		if err != nil {
			return err
		}
		r.Objects = append(r.Objects, Object{Unstructured: obj})
	}
	return nil
}

// addHooks adds Services, certificates, webhook configurations and APIServices, and the bindings of API servers.
func (r *Rendered) addHooks(Input) error {
	parts, err := r.Hooks.Parts()
	if err != nil {
		return err
	}
	r.replaceManifests(parts)
	for _, obj := range parts {
		r.Objects = append(r.Objects, Object{Unstructured: obj, Certified: !r.Hooks.Outsourced()})
	}
	for _, list := range []func() ([]*unstructured.Unstructured, error){r.Hooks.Access, r.Hooks.Hooks} {
		objs, err := list()
		if err != nil {
			return err
		}
		for _, obj := range objs {
			r.Objects = append(r.Objects, Object{Unstructured: obj})
		}
	}
	return nil
}

// replaceManifests removes manifests of the bundle if the same objects are also rendered: some bundles contain the Service of
// their webhooks. The install of a CSV overwrites such an object as well.
func (r *Rendered) replaceManifests(rendered []*unstructured.Unstructured) {
	identities := map[string]bool{}
	for _, obj := range rendered {
		identities[identity(obj)] = true
	}
	r.Objects = slices.DeleteFunc(r.Objects, func(o Object) bool {
		same := identities[identity(o.Unstructured)]
		if same {
			r.Warnings = append(slices.Clone(r.Warnings), fmt.Sprintf("omitted %s of the bundle: Remit creates this object for the bundle's webhooks and APIs", apply.Describe(o.Unstructured)))
		}
		return same
	})
}

// identity returns the kind, namespace and name of an object, regardless of the version.
func identity(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().GroupKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// finish makes the ClusterExtension the owner of all objects, and sorts them into phases.
func (r *Rendered) finish(owner ownerutil.Owner) error {
	seen := map[string]bool{}
	for i := range r.Objects {
		obj := &r.Objects[i]
		id := identity(obj.Unstructured)
		if seen[id] {
			return fmt.Errorf("the install contains %s twice", apply.Describe(obj))
		}
		seen[id] = true
		obj.Unstructured = obj.DeepCopy() // the plan's objects must not be modified
		obj.SetOwnerReferences(nil)
		if owner.UID != "" {
			obj.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
		}
		obj.Phase = PhaseOf(obj.Unstructured)
	}
	if n := len(r.Objects); n > build.MaxSteps {
		return fmt.Errorf("the install has %d objects; at most %d are allowed", n, build.MaxSteps)
	}
	sortObjects(r.Objects)
	return nil
}

// Phases returns the phases that contain objects, in the order of application.
func (r *Rendered) Phases() []Phase {
	return slices.DeleteFunc(Order(), func(p Phase) bool { return len(r.In(p)) == 0 })
}
