package hooks

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Input contains the data from which a plan is derived. CSV, Owner and Group are required.
type Input struct {
	CSV   *operatorsv1alpha1.ClusterServiceVersion
	Owner ownerutil.Owner
	Group webhook.Group
	// NamespaceUID is the UID of the CSV's namespace.
	NamespaceUID types.UID
	// Config is the Subscription's config, or nil.
	Config *operatorsv1alpha1.SubscriptionConfig
	// Tool issues the certificates unless the CSV or the config selects a tool; nil means that Remit issues them.
	Tool *serving.Tool
	// Taken reports whether a binding with this name exists and belongs to another owner; nil means that none does. OLM's
	// names are used only for the installation's default account.
	Taken func(kind, namespace, name string) bool
	// Scopes and Holds have the same meaning as in webhook.Input. A plan calls Scopes once per resource.
	Scopes webhook.Scopes
	Holds  func(rbacv1.PolicyRule) bool
}

// Plan contains the desired webhooks, conversions and APIs of an operator. Certificates are added as they are issued.
type Plan struct {
	in     Input
	tool   *serving.Tool
	Served []serving.Deployment
	apis   []apiservice.API
	sets   map[string]cert.Set
	// within contains the live configurations to which the planned ones are narrowed; nil means that they are not.
	within *Live
	// rendered caches all hooks for the current sets; nil if they must be rendered again.
	rendered []hook
}

// New returns the plan for a CSV. The CSV's webhook and API descriptions must be valid ([Validate]).
func New(in Input) (*Plan, error) {
	p := &Plan{
		in: in, Served: serving.Served(in.CSV), apis: apiservice.Owned(in.CSV),
		sets: map[string]cert.Set{},
	}
	p.in.Scopes = webhook.Builtin
	if in.Scopes != nil {
		p.in.Scopes = webhook.Remembered(webhook.First(webhook.Builtin, in.Scopes))
	}
	if len(p.Served) == 0 {
		return p, nil
	}
	var err error
	if p.tool, err = serving.ToolOf(in.CSV, in.Config); p.tool == nil {
		p.tool = in.Tool
	}
	return p, err
}

// Empty reports whether the operator serves no webhooks, conversions or APIs.
func (p *Plan) Empty() bool { return len(p.Served) == 0 }

// Outsourced reports whether a certificate tool, and not Remit, issues the certificates.
func (p *Plan) Outsourced() bool { return p.tool != nil }

// Serves reports whether a Deployment serves webhooks, conversions or APIs.
func (p *Plan) Serves(deployment string) bool {
	return slices.ContainsFunc(p.Served, func(d serving.Deployment) bool { return d.Name == deployment })
}

// Certified reports whether the caBundle for a Deployment's callers is known or a certificate tool sets it. Do not
// write the callers before Certified returns true.
func (p *Plan) Certified(deployment string) bool {
	return p.tool != nil || !p.sets[deployment].IsZero()
}

// Use adds the certificates of a Deployment, as read from its Secret, to the plan. Installer.Certify also adds them.
func (p *Plan) Use(deployment string, set cert.Set) { p.certified(deployment, set) }

// Certificates returns the certificates of a Deployment that the plan contains, or the zero Set.
func (p *Plan) Certificates(deployment string) cert.Set { return p.sets[deployment] }

// Mount adds a Deployment's certificates to its Pod template. The author's mounts at the same paths are kept if the author
// or the config selects the tool that issues the certificates; otherwise they are replaced.
func (p *Plan) Mount(deployment string, pod *corev1.PodTemplateSpec) {
	switch {
	case !p.Serves(deployment):
	case p.tool != nil && p.tool != p.in.Tool:
		serving.Mount(pod, deployment, "")
	default:
		serving.Replace(pod, deployment, p.sets[deployment].Hash())
	}
}

// certified records the certificates of a Deployment. All hooks are then rendered again.
func (p *Plan) certified(deployment string, set cert.Set) {
	p.sets[deployment], p.rendered = set, nil
}

func (p *Plan) trust(deployment string) []byte {
	if set := p.sets[deployment]; !set.IsZero() {
		return set.Trust()
	}
	return nil
}

func (p *Plan) webhooks() webhook.Input {
	return webhook.Input{
		CSV: p.in.CSV, Owner: p.in.Owner, Group: p.in.Group, NamespaceUID: p.in.NamespaceUID,
		Trust: p.trust, Annotations: p.tool.Configuration, Scopes: p.in.Scopes, Holds: p.in.Holds,
	}
}

func (p *Plan) apiservices() apiservice.Input {
	in := apiservice.Input{
		CSV: p.in.CSV, Owner: p.in.Owner, NamespaceUID: p.in.NamespaceUID, Trust: p.trust, Annotations: p.tool.Configuration,
	}
	if !p.in.Group.Bounded && p.in.Owner.Extension == "" {
		in.Plain = func(kind, namespace, name string) bool {
			return p.in.Taken == nil || !p.in.Taken(kind, namespace, name)
		}
	}
	return in
}

func (p *Plan) serving() serving.Input {
	return serving.Input{CSV: p.in.CSV, Owner: p.in.Owner, Tool: p.tool}
}

// Access returns the roles and bindings that the Deployments need to read their certificates and serve APIs. Create
// them before the Deployments. An operator of a ClusterExtension reads its certificates only from the mounted files.
func (p *Plan) Access() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, d := range p.Served {
		if p.tool == nil && p.in.Owner.Extension == "" {
			objs, err := p.serving().Access(d)
			if err != nil {
				return nil, err
			}
			out = append(out, objs...)
		}
		if d.APIs {
			objs, err := p.apiservices().Access(d.Name)
			if err != nil {
				return nil, err
			}
			out = append(out, objs...)
		}
	}
	return out, nil
}

// hook is a webhook configuration or APIService that makes the API server call a Deployment.
type hook struct {
	*unstructured.Unstructured
	deployment string
	// hash is the hash of a webhook's description. api is the API that an APIService registers.
	hash string
	api  *apiservice.API
}

// is reports whether a live object has the kind and name of the hook.
func (h hook) is(obj client.Object) bool { return apply.Describe(h) == apply.Describe(obj) }

// hooks returns the webhook configurations and APIServices of a Deployment, or those of all Deployments if deployment
// is "". The caller must not modify them.
func (p *Plan) hooks(deployment string) ([]hook, error) {
	if p.rendered == nil {
		var err error
		if p.rendered, err = p.render(); err != nil {
			return nil, err
		}
	}
	if deployment == "" {
		return p.rendered, nil
	}
	var out []hook
	for _, h := range p.rendered {
		if h.deployment == deployment {
			out = append(out, h)
		}
	}
	return out, nil
}

func (p *Plan) render() ([]hook, error) {
	configurations, err := webhook.Desired(p.webhooks())
	if err != nil {
		return nil, err
	}
	var out []hook
	for _, c := range configurations {
		h := hook{Unstructured: c.Unstructured, deployment: c.Deployment, hash: c.Hash}
		if _, err := p.within.narrow(p, h); err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	for i := range p.apis {
		obj, err := p.apiservices().Desired(p.apis[i])
		if err != nil {
			return nil, err
		}
		out = append(out, hook{Unstructured: obj, deployment: p.apis[i].Deployment, api: &p.apis[i]})
	}
	return out, nil
}

// Hooks returns the webhook configurations and APIServices, with the certificates that are known. The caller must not modify
// them.
func (p *Plan) Hooks() ([]*unstructured.Unstructured, error) {
	all, err := p.hooks("")
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, 0, len(all))
	for _, h := range all {
		out = append(out, h.Unstructured)
	}
	return out, nil
}

// Conversions returns the conversions of CustomResourceDefinitions, with the certificates that are known.
func (p *Plan) Conversions() []webhook.Conversion { return p.conversions("") }

func (p *Plan) conversions(deployment string) []webhook.Conversion {
	return slices.DeleteFunc(webhook.Conversions(p.webhooks()), func(c webhook.Conversion) bool {
		return deployment != "" && c.Deployment != deployment
	})
}

// Validate returns the errors in a CSV's webhooks and APIs, and in the related parts of the Subscription's config,
// that do not depend on who installs the CSV. apis contains the errors in API descriptions; webhooks contains all
// others.
func Validate(csv *operatorsv1alpha1.ClusterServiceVersion, config *operatorsv1alpha1.SubscriptionConfig) (webhooks, apis error) {
	if webhooks = webhook.Validate(csv); webhooks != nil {
		return webhooks, nil
	}
	if apis = apiservice.Validate(csv); apis != nil {
		return nil, apis
	}
	err := serving.Validate(csv)
	if err == nil && len(serving.Served(csv)) > 0 {
		_, err = serving.ToolOf(csv, config)
	}
	if err != nil {
		return fmt.Errorf("webhooks and APIs cannot be served: %w", err), nil
	}
	return nil, nil
}
