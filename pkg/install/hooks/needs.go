package hooks

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Need is what one action of a plan requires of the account.
type Need = rbac.Need

// resources are the resources of the kinds in a plan that bundles cannot contain.
var resources = map[string]string{
	"Deployment": "deployments", "APIService": "apiservices",
	"ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	"MutatingWebhookConfiguration":   "mutatingwebhookconfigurations",
}

// Needs returns what the account needs during the whole life of a plan, by name: for its installation, rotation,
// change and removal. If one is missing, nothing is installed.
func (p *Plan) Needs() ([]Need, error) {
	var needs []Need
	parts, err := p.Parts()
	if err != nil {
		return nil, err
	}
	for _, obj := range parts {
		needs = append(needs, Request(obj, "apply "+apply.Describe(obj), apply.Verbs()...), handover(obj))
	}
	access, err := p.Access()
	if err != nil {
		return nil, err
	}
	for _, obj := range access {
		n := Request(obj, "apply "+apply.Describe(obj), apply.Verbs()...)
		n.Grants = obj
		if obj.GetNamespace() == p.in.Owner.Namespace {
			needs = append(needs, n, handover(obj))
		} else {
			needs = append(needs, n, p.removal(obj))
		}
	}
	hooks, err := p.hooks("")
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		needs = append(needs, Request(h.Unstructured, "apply "+apply.Describe(h.Unstructured), apply.Verbs()...), p.removal(h.Unstructured))
	}
	conversions := p.conversions("")
	for _, c := range conversions {
		needs = append(needs, conversion(c.CRD))
	}
	if len(conversions) > 0 {
		needs = append(needs, p.stops()...)
	}
	return append(needs, p.Demands()...), nil
}

// Parts returns the Services and, if Remit issues the certificates, the Secrets of all Deployments that are called. No
// Secret has a certificate yet.
func (p *Plan) Parts() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, d := range p.Served {
		service, err := p.serving().Service(d, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, service)
		if p.tool != nil {
			continue
		}
		secret, err := p.serving().Secret(d, cert.Set{})
		if err != nil {
			return nil, err
		}
		out = append(out, secret)
	}
	return out, nil
}

// conversion returns the Need for changing the conversion of one CustomResourceDefinition, which is a patch and not
// an apply.
func conversion(crd string) Need {
	obj := apply.Reference(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crd)
	return Request(obj, "convert "+apply.Describe(obj), "patch")
}

// stops returns the Needs for deleting the operator's Deployments before the conversions are reset, which later versions may
// do as well.
func (p *Plan) stops() []Need {
	var needs []Need
	for _, d := range p.in.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		n := p.removal(p.deployment(d.Name))
		n.Later = true
		needs = append(needs, n)
	}
	return needs
}

func (p *Plan) deployment(name string) *unstructured.Unstructured {
	return apply.Reference(appsv1.SchemeGroupVersion.WithKind("Deployment"), p.in.Owner.Namespace, name)
}

func (p *Plan) removal(obj *unstructured.Unstructured) Need { return Removal(obj, p.in.Owner) }

// Removal is the need to delete an object that is removed with its ClusterServiceVersion.
func Removal(obj *unstructured.Unstructured, owner ownerutil.Owner) Need {
	return Request(obj, fmt.Sprintf("remove %s with ClusterServiceVersion %s/%s", apply.Describe(obj), owner.Namespace, owner.CSV), "delete")
}

// handover returns the Need of the next version, whose owner reference replaces this one's: with
// OwnerReferencesPermissionEnforcement, only users who may delete the object may change it.
func handover(obj *unstructured.Unstructured) Need {
	n := Request(obj, "hand "+apply.Describe(obj)+" over to the next version", "delete")
	n.Later = true
	return n
}

// Request is the need to send requests about an object.
func Request(obj *unstructured.Unstructured, cause string, verbs ...string) Need {
	return Need{
		Namespace: obj.GetNamespace(), Object: apply.Describe(obj), Cause: cause,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{obj.GroupVersionKind().Group}, Resources: []string{cmp.Or(resources[obj.GetKind()], bundle.KindOfObject(obj).Resource)},
			ResourceNames: []string{obj.GetName()}, Verbs: verbs,
		}},
	}
}

// Intercepts returns what the rules of one of the CSV's admission webhooks require.
func (p *Plan) Intercepts(d *operatorsv1alpha1.WebhookDescription) webhook.Demand {
	return webhook.Intercepts(d, p.in.Scopes)
}

// Demands returns what the account of a bounded group must itself be able to write and read, in each target, so that
// its operator may intercept it, and what it may not intercept at all.
func (p *Plan) Demands() []Need {
	if !p.in.Group.Bounded {
		return nil
	}
	var needs []Need
	for i := range p.in.CSV.Spec.WebhookDefinitions {
		d := &p.in.CSV.Spec.WebhookDefinitions[i]
		if d.Type == operatorsv1alpha1.ConversionWebhook {
			continue
		}
		needs = append(needs, p.demands(d)...)
	}
	if refused := webhook.Refused(p.in.CSV); refused != nil {
		needs = append(needs, Need{Object: "ClusterServiceVersion " + p.in.Owner.Namespace + "/" + p.in.Owner.CSV, Invalid: refused})
	}
	return needs
}

// demands returns the Needs of one webhook. A webhook that can make something run as any ServiceAccount of all
// namespaces requires permission to act as any of them, because future ServiceAccounts are unknown.
func (p *Plan) demands(d *operatorsv1alpha1.WebhookDescription) []Need {
	need := Need{
		Object: fmt.Sprintf("webhook %q", d.GenerateName),
		Cause:  fmt.Sprintf("intercept by webhook %q: an operator may intercept only what its account can read and write", d.GenerateName),
	}
	runs := need
	runs.Cause = fmt.Sprintf("intercept by webhook %q, which may make Pods run as any ServiceAccount", d.GenerateName)
	demand := p.Intercepts(d)
	var needs []Need
	add := func(n Need, namespace string, rules ...rbacv1.PolicyRule) {
		n.Namespace, n.Rules = namespace, rules
		if n.Identities || len(rules) > 0 {
			needs = append(needs, n)
		}
	}
	add(need, rbac.ClusterScope, demand.Cluster...)
	for _, target := range p.in.Group.Targets {
		add(need, target, demand.Namespaced...)
		if !demand.Identities {
			continue
		}
		if target == rbac.ClusterScope {
			add(runs, target, rbac.RequestToken()...)
			continue
		}
		n := runs
		n.Identities = true
		add(n, target)
	}
	return needs
}
