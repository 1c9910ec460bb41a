package corpus

import (
	"slices"
	"strings"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// unserved returns why an account that an OperatorGroup names cannot install the bundle on a current cluster; "" if it
// can.
func (p *published) unserved() string {
	for _, obj := range p.Objects {
		if gvk := obj.GroupVersionKind(); gvk.Group == apiextensionsv1.GroupName && gvk.Version != "v1" {
			return "CustomResourceDefinition " + obj.GetName() + " of " + gvk.Version + ", which Kubernetes has not served since 1.22"
		}
	}
	return p.protected()
}

// protected returns why only the default account may write one of the bundle's CustomResourceDefinitions; "" if other
// accounts may write all of them. The CLI prints no permissions for a bundle with a protected CustomResourceDefinition.
func (p *published) protected() string {
	for _, obj := range p.Objects {
		if name, _, _ := unstructured.NestedString(obj.Object, "spec", "group"); obj.GetKind() == "CustomResourceDefinition" && group.Protected(name) && !execute.Approved(step.Step{Object: obj}) {
			return "CustomResourceDefinition " + obj.GetName() + " belongs to a protected API group"
		}
	}
	return ""
}

// ownCRDs returns the names of the bundle's CustomResourceDefinitions.
func (p *published) ownCRDs() []string {
	var out []string
	for _, obj := range p.Objects {
		if obj.GetKind() == "CustomResourceDefinition" {
			out = append(out, obj.GetName())
		}
	}
	return out
}

// crds returns the names of the bundle's CustomResourceDefinitions and of their stand-ins.
func (p *published) crds() []string {
	out := p.ownCRDs()
	for _, crd := range p.standIns() {
		out = append(out, crd.Name)
	}
	return out
}

// groupOf returns the API group of a CustomResourceDefinition.
func groupOf(crd string) string {
	_, group, _ := strings.Cut(crd, ".")
	return group
}

// standIns returns CustomResourceDefinitions for the kinds that the bundle needs but that are neither in the bundle nor
// in every cluster: required APIs from other packages, and kinds that its manifests use.
func (p *published) standIns() []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	add := func(plural string, gvk schema.GroupVersionKind, scope apiextensionsv1.ResourceScope) {
		crd := standIn(plural, gvk, scope)
		known := slices.ContainsFunc(out, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == crd.Name })
		if !known && !slices.Contains(p.ownCRDs(), crd.Name) {
			out = append(out, crd)
		}
	}
	for _, d := range p.CSV.Spec.CustomResourceDefinitions.Required {
		plural, group, _ := strings.Cut(d.Name, ".")
		add(plural, schema.GroupVersionKind{Group: group, Version: d.Version, Kind: d.Kind}, apiextensionsv1.NamespaceScoped)
	}
	for _, obj := range p.Objects {
		gvk := obj.GroupVersionKind()
		if clientgoscheme.Scheme.Recognizes(gvk) || gvk.Group == apiextensionsv1.GroupName {
			continue
		}
		kind, _ := bundle.KindOf(gvk.GroupKind())
		scope := apiextensionsv1.ClusterScoped
		if kind.Namespaced {
			scope = apiextensionsv1.NamespaceScoped
		}
		add(kind.Resource, gvk, scope)
	}
	return out
}

// priorities returns replacements for the PriorityClasses that the bundle's Deployments name but that are neither in
// the bundle nor in every cluster.
func (p *published) priorities() []*schedulingv1.PriorityClass {
	var out []*schedulingv1.PriorityClass
	for _, d := range p.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		name := d.Spec.Template.Spec.PriorityClassName
		is := func(c *schedulingv1.PriorityClass) bool { return c.Name == name }
		brought := func(o *unstructured.Unstructured) bool { return o.GetKind() == "PriorityClass" && o.GetName() == name }
		if name != "" && !strings.HasPrefix(name, "system-") && !slices.ContainsFunc(out, is) && !slices.ContainsFunc(p.Objects, brought) {
			out = append(out, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	return out
}

func standIn(plural string, gvk schema.GroupVersionKind, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + gvk.Group,
			// The API server requires an approval annotation for protected groups (k8s.io, kubernetes.io).
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a stand-in for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group,
			Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: strings.ToLower(gvk.Kind), Kind: gvk.Kind, ListKind: gvk.Kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gvk.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// claims returns the names of the cluster-scoped objects that the case creates.
func (c *testCase) claims() []string {
	var out []string
	for _, crd := range c.standIns() {
		out = append(out, crd.Name)
	}
	for _, class := range c.priorities() {
		out = append(out, "PriorityClass "+class.Name)
	}
	for _, obj := range c.Objects {
		if kind, _ := bundle.KindOf(obj.GroupVersionKind().GroupKind()); !kind.Namespaced {
			out = append(out, obj.GetKind()+" "+obj.GetName())
		}
		if execute.Approved(step.Step{Object: obj}) {
			name, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
			out = append(out, "group "+name)
		}
	}
	return append(out, c.ownCRDs()...)
}
