package hooks

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/group"
)

// Live contains the live objects of a plan and those that an earlier version left behind, as read from a cache.
type Live struct {
	services    map[string]*corev1.Service
	deployments map[string]*appsv1.Deployment
	// configurations are the webhook configurations of the lineage.
	configurations []client.Object
	// apiservices are the APIServices of the plan's groups, regardless of owner, and those of the lineage.
	apiservices []*apiregistrationv1.APIService
	// crds are the CustomResourceDefinitions of the plan's conversions and of the lineage. served contains all
	// CustomResourceDefinitions of the cluster if the operator serves its own APIs, and otherwise only those of the
	// lineage.
	crds   []*apiextensionsv1.CustomResourceDefinition
	served []apiextensionsv1.CustomResourceDefinition
	by     []client.ListOption
}

// Gather reads the live objects of a plan from r, which should be a cache. "by" selects the objects of the lineage
// through an index of r; if it is empty, Gather selects them by label.
func Gather(ctx context.Context, r client.Reader, p *Plan, by ...client.ListOption) (*Live, error) {
	if len(by) == 0 {
		by = []client.ListOption{p.in.Owner.Marked()}
	}
	live := &Live{services: map[string]*corev1.Service{}, deployments: map[string]*appsv1.Deployment{}, by: by}
	for _, gather := range []func(context.Context, client.Reader, *Plan) error{
		live.gatherServing, live.gatherConfigurations, live.gatherAPIServices, live.gatherCRDs,
	} {
		if err := gather(ctx, r, p); err != nil {
			return nil, err
		}
	}
	return live, nil
}

func (l *Live) gatherServing(ctx context.Context, r client.Reader, p *Plan) error {
	for _, d := range p.Served {
		service, deployment := &corev1.Service{}, &appsv1.Deployment{}
		if exists, err := apply.Read(ctx, r, p.service(d.Name), service); err != nil {
			return err
		} else if exists {
			l.services[d.Name] = service
		}
		if exists, err := apply.Read(ctx, r, types.NamespacedName{Namespace: p.in.Owner.Namespace, Name: d.Name}, deployment); err != nil {
			return err
		} else if exists {
			l.deployments[d.Name] = deployment
		}
	}
	return nil
}

func (l *Live) gatherConfigurations(ctx context.Context, r client.Reader, p *Plan) error {
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	for _, list := range []client.ObjectList{validating, mutating} {
		if err := r.List(ctx, list, l.by...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range validating.Items {
		l.configurations = append(l.configurations, &validating.Items[i])
	}
	for i := range mutating.Items {
		l.configurations = append(l.configurations, &mutating.Items[i])
	}
	l.configurations = slices.DeleteFunc(l.configurations, func(obj client.Object) bool { return !p.in.Owner.Owns(obj) })
	return nil
}

// gatherAPIServices lists the APIServices of the lineage or, if the operator serves its own APIs, all of them.
func (l *Live) gatherAPIServices(ctx context.Context, r client.Reader, p *Plan) error {
	list := &apiregistrationv1.APIServiceList{}
	opts := l.by
	if len(p.apis) > 0 {
		opts = nil
	}
	if err := r.List(ctx, list, opts...); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	for i := range list.Items {
		one := &list.Items[i]
		claimed := func(api apiservice.API) bool { return api.Name() == one.Name || group.Same(api.Group, one.Spec.Group) }
		if p.in.Owner.Owns(one) || slices.ContainsFunc(p.apis, claimed) {
			l.apiservices = append(l.apiservices, one)
		}
	}
	return nil
}

// gatherCRDs lists the CustomResourceDefinitions of the lineage or, if the operator serves its own APIs, all of them,
// because no CustomResourceDefinition is allowed to serve such an API.
func (l *Live) gatherCRDs(ctx context.Context, r client.Reader, p *Plan) error {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	opts := []client.ListOption{client.UnsafeDisableDeepCopy}
	if len(p.apis) == 0 {
		opts = append(opts, l.by...)
	}
	if err := r.List(ctx, list, opts...); err != nil {
		return fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	l.served = list.Items
	for i := range list.Items {
		if p.in.Owner.Owns(&list.Items[i]) {
			l.crds = append(l.crds, &list.Items[i])
		}
	}
	for _, c := range p.conversions("") {
		if byName(l.crds, c.CRD) != nil {
			continue
		}
		other := &apiextensionsv1.CustomResourceDefinition{}
		if exists, err := apply.Read(ctx, r, types.NamespacedName{Name: c.CRD}, other); err != nil {
			return err
		} else if exists {
			l.crds = append(l.crds, other)
		}
	}
	return nil
}

// byName returns the object with this name, or nil.
func byName[T client.Object](objs []T, name string) (found T) {
	if i := slices.IndexFunc(objs, func(obj T) bool { return obj.GetName() == name }); i >= 0 {
		return objs[i]
	}
	return found
}

// object returns the live object of a hook, or nil if it does not exist.
func (l *Live) object(h hook) client.Object {
	if i := slices.IndexFunc(l.configurations, h.is); i >= 0 {
		return l.configurations[i]
	}
	if s := byName(l.apiservices, h.GetName()); s != nil && h.is(s) {
		return s
	}
	return nil
}

// own returns the lineage's webhook configurations and APIServices.
func (l *Live) own(p *Plan) []client.Object {
	out := slices.Clone(l.configurations)
	for _, s := range l.apiservices {
		if p.in.Owner.Owns(s) {
			out = append(out, s)
		}
	}
	return out
}

// call is a Service that the API server calls because of an object, and the caBundle that it uses for these calls.
type call struct {
	service types.NamespacedName
	bundle  []byte
}

// calls returns the Services that the API server calls because of a webhook configuration or APIService. A
// configuration that is switched off has none.
func calls(obj client.Object) []call {
	var out []call
	add := func(c admissionregistrationv1.WebhookClientConfig) {
		if c.Service != nil {
			out = append(out, call{types.NamespacedName{Namespace: c.Service.Namespace, Name: c.Service.Name}, c.CABundle})
		}
	}
	switch o := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			add(w.ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			add(w.ClientConfig)
		}
	case *apiregistrationv1.APIService:
		if s := o.Spec.Service; s != nil {
			out = append(out, call{types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, o.Spec.CABundle})
		}
	}
	return out
}

// callers returns the lineage's webhook configurations and APIServices that refer to a Deployment's Service.
func (l *Live) callers(p *Plan, deployment string) []client.Object {
	service := p.service(deployment)
	return slices.DeleteFunc(l.own(p), func(obj client.Object) bool {
		return !slices.ContainsFunc(calls(obj), func(c call) bool { return c.service == service })
	})
}

func (p *Plan) service(deployment string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.in.Owner.Namespace, Name: cert.ServiceName(deployment)}
}

// converted returns the lineage's CustomResourceDefinitions that a Deployment converts.
func (l *Live) converted(p *Plan, deployment string) []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range l.crds {
		if service, ok := webhook.CalledAt(crd); ok && p.in.Owner.Owns(crd) && service == p.service(deployment) {
			out = append(out, crd)
		}
	}
	return out
}

// bundles returns the caBundles that the API server uses to call a Deployment.
func (l *Live) bundles(p *Plan, deployment string) [][]byte {
	var out [][]byte
	for _, obj := range l.callers(p, deployment) {
		for _, c := range calls(obj) {
			if c.service == p.service(deployment) {
				out = append(out, c.bundle)
			}
		}
	}
	for _, crd := range l.converted(p, deployment) {
		out = append(out, webhook.Bundle(crd))
	}
	return out
}
