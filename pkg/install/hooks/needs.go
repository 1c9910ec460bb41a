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

// Need lists the permissions that the account needs for one action of a plan.
type Need = rbac.Need

// resources maps the kinds that a plan can contain but a bundle cannot to their resources.
var resources = map[string]string{
	"Deployment": "deployments", "APIService": "apiservices",
	"ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	"MutatingWebhookConfiguration":   "mutatingwebhookconfigurations",
	"Issuer":                         "issuers", "Certificate": "certificates",
}

// Needs returns the permissions that the account needs to install the plan, to rotate its certificates, and to change
// and remove it. If one is missing, nothing is installed.
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
		needs = append(needs, Conversion(c.CRD))
	}
	if len(conversions) > 0 {
		needs = append(needs, p.stops()...)
	}
	return append(needs, p.Demands()...), nil
}

// Parts returns the Services of all Deployments that serve webhooks or APIs and, if Remit issues the certificates,
// their Secrets without certificates, or the objects with which a tool issues them.
func (p *Plan) Parts() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, d := range p.Served {
		service, err := p.serving().Service(d, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, service)
		if p.tool != nil {
			issue, err := p.serving().Issue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, issue...)
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

// IssuedSecrets returns references to the Secrets that cert-manager writes because of the install.
func (p *Plan) IssuedSecrets() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, d := range p.Served {
		if secret := p.serving().Issued(d); secret != nil {
			out = append(out, secret)
		}
	}
	return out
}

// Conversion returns the Need for changing the conversion of one CustomResourceDefinition. It includes only the verb
// patch, because conversions are patched rather than applied.
func Conversion(crd string) Need {
	obj := apply.Reference(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crd)
	return Request(obj, "convert "+apply.Describe(obj), "patch")
}

// stops returns the Needs for deleting the operator's Deployments, which must be deleted before the conversions are
// reset. Later is set, because the permissions are not needed while this version is installed.
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

// Removal returns the Need for deleting an object that is removed with its ClusterServiceVersion.
func Removal(obj *unstructured.Unstructured, owner ownerutil.Owner) Need {
	return Request(obj, fmt.Sprintf("remove %s with %s", apply.Describe(obj), owner.Describe()), "delete")
}

// handover returns the Need for replacing the object's owner reference with one to the next version: the admission
// plugin OwnerReferencesPermissionEnforcement lets only users who may delete an object change its owner references.
func handover(obj *unstructured.Unstructured) Need {
	n := Request(obj, "hand "+apply.Describe(obj)+" over to the next version", "delete")
	n.Later = true
	return n
}

// Request returns the Need for requests with these verbs for an object. cause describes the action.
func Request(obj *unstructured.Unstructured, cause string, verbs ...string) Need {
	return Need{
		Namespace: obj.GetNamespace(), Object: apply.Describe(obj), Cause: cause,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{obj.GroupVersionKind().Group}, Resources: []string{cmp.Or(resources[obj.GetKind()], bundle.KindOfObject(obj).Resource)},
			ResourceNames: []string{obj.GetName()}, Verbs: verbs,
		}},
	}
}

// Intercepts returns the permissions that the account needs for the rules of one of the CSV's admission webhooks.
func (p *Plan) Intercepts(d *operatorsv1alpha1.WebhookDescription) webhook.Demand {
	return webhook.Intercepts(d, p.in.Scopes)
}

// Demands returns the Needs for intercepting requests, or nil if the group is not bounded. The account must be able to
// read and write the intercepted objects in each target namespace. A Need with Invalid set describes requests that no
// bounded group is allowed to intercept.
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
		needs = append(needs, Demanded(d.GenerateName, p.Intercepts(d), p.in.Group.Targets...)...)
	}
	if refused := webhook.Refused(p.in.CSV); refused != nil {
		needs = append(needs, Need{Object: p.in.Owner.Describe(), Invalid: refused})
	}
	return needs
}

// Demanded returns the Needs of one webhook with a name and demand, for the target namespaces. If the webhook can make
// workloads in all namespaces run as any ServiceAccount, the account must be allowed to request tokens for all
// ServiceAccounts, because future ServiceAccounts are unknown.
func Demanded(name string, demand webhook.Demand, targets ...string) []Need {
	need := Need{
		Object: fmt.Sprintf("webhook %q", name), Unenforced: true,
		Cause: fmt.Sprintf("intercept requests through webhook %q: an operator may intercept only what its account can read and write", name),
	}
	runs := need
	runs.Cause = fmt.Sprintf("intercept requests through webhook %q, which may make Pods run as any ServiceAccount", name)
	var needs []Need
	add := func(n Need, namespace string, rules ...rbacv1.PolicyRule) {
		n.Namespace, n.Rules = namespace, rules
		if n.Identities || len(rules) > 0 {
			needs = append(needs, n)
		}
	}
	add(need, rbac.ClusterScope, demand.Cluster...)
	for _, target := range targets {
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
