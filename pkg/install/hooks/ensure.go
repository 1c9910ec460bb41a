package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Ensure applies the webhooks, conversions and APIs that a ready Deployment serves. It returns a description of each
// change.
func (i Installer) Ensure(ctx context.Context, p *Plan, live *Live, name string) ([]string, error) {
	var changed []string
	hooks, err := p.hooks(name)
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		if h.api != nil {
			if err := live.taken(p, *h.api); err != nil {
				return changed, err
			}
		}
		if live.inPlace(p, h) {
			continue
		}
		result, _, err := apply.Ensure(ctx, i.Account, h.Unstructured, p.in.Owner)
		if err != nil {
			return changed, err
		}
		if result != apply.Unchanged {
			changed = append(changed, string(result)+" "+apply.Describe(h.Unstructured))
		}
	}
	more, err := i.convert(ctx, p, live, name)
	return append(changed, more...), err
}

// convert configures the lineage's CustomResourceDefinitions to be converted by the Deployment's webhooks.
func (i Installer) convert(ctx context.Context, p *Plan, live *Live, name string) ([]string, error) {
	var changed []string
	for _, c := range p.conversions(name) {
		crd := byName(live.crds, c.CRD)
		if err := convertible(p, c, crd); err != nil {
			return changed, err
		}
		if c.InPlace(crd) {
			continue
		}
		patch, err := c.Patch(crd)
		if err != nil {
			return changed, err
		}
		if err := i.patch(ctx, live, crd, patch); err != nil {
			return changed, err
		}
		changed = append(changed, "Updated the conversion of CustomResourceDefinition "+crd.Name)
	}
	return changed, nil
}

// convertible returns an error if a CustomResourceDefinition does not exist or this lineage is not allowed to convert
// it.
func convertible(p *Plan, c webhook.Conversion, crd *apiextensionsv1.CustomResourceDefinition) error {
	switch {
	case crd == nil:
		return fmt.Errorf("CustomResourceDefinition %q does not exist", c.CRD)
	case crd.Spec.PreserveUnknownFields && p.in.Owner.Owns(crd):
		return &PreservedError{CRD: c.CRD}
	}
	if why := p.in.Owner.Check(crd); why != nil {
		return apply.NewCollision(crd, why)
	}
	return nil
}

// Unconvertible returns an error that names the CustomResourceDefinitions of other owners that the plan would convert, or nil.
func (l *Live) Unconvertible(p *Plan) error {
	var all []error
	for _, c := range p.conversions("") {
		if crd := byName(l.crds, c.CRD); crd != nil {
			all = append(all, convertible(p, c, crd))
		}
	}
	return errors.Join(all...)
}

// PreservedError reports that a CustomResourceDefinition cannot have a conversion webhook because it preserves unknown
// fields.
type PreservedError struct{ CRD string }

func (e *PreservedError) Error() string {
	return fmt.Sprintf("CustomResourceDefinition %q preserves unknown fields (spec.preserveUnknownFields), so it cannot have a conversion webhook", e.CRD)
}

func (l *Live) taken(p *Plan, api apiservice.API) error {
	return apiservice.Taken(api, p.in.Owner, l.apiservices, l.served)
}

// Taken returns an error if another owner serves one of the CSV's APIs.
func (l *Live) Taken(p *Plan) error {
	for _, api := range p.apis {
		if err := l.taken(p, api); err != nil {
			return err
		}
	}
	return nil
}

// Off prepares a Deployment for a rollout, during which its webhooks may not respond. It removes the webhooks from the
// lineage's configurations that will change, and deletes configurations and APIServices that are no longer wanted.
// Conversions are kept, because stored objects could not be read without them. Nothing is changed if try returns an error: it tries the
// change of the Deployment, and webhooks would stay off as long as that is refused. It is called only if there is something to change.
func (i Installer) Off(ctx context.Context, p *Plan, live *Live, name string, try func(context.Context) error) ([]string, error) {
	hooks, err := p.hooks("")
	if err != nil {
		return nil, err
	}
	var changes []func() (done string, err error)
	for _, obj := range live.callers(p, name) {
		k := slices.IndexFunc(hooks, func(h hook) bool { return h.is(obj) })
		switch {
		case k < 0:
			changes = append(changes, func() (string, error) { return "Deleted " + apply.Describe(obj), apply.Delete(ctx, i.Account, obj) })
		case hooks[k].api == nil && obj.GetLabels()[names.LabelWebhookHash] != hooks[k].hash:
			changes = append(changes, func() (string, error) {
				off := webhook.Off(webhook.Configuration{Unstructured: hooks[k].Unstructured})
				_, _, err := apply.Ensure(ctx, i.Account, off.Unstructured, p.in.Owner)
				return "Disabled " + apply.Describe(obj), err
			})
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	if err := try(ctx); err != nil {
		return nil, err
	}
	var changed []string
	for _, change := range changes {
		done, err := change()
		if err != nil {
			return changed, err
		}
		changed = append(changed, done)
	}
	return changed, nil
}

// Prune deletes the lineage's objects that the plan does not contain. Call it when all Deployments are ready.
func (i Installer) Prune(ctx context.Context, p *Plan, live *Live) ([]string, error) {
	objs, crds, err := live.surplus(p)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, obj := range objs {
		if err := apply.Delete(ctx, i.Account, obj); err != nil {
			return changed, err
		}
		changed = append(changed, "Deleted "+apply.Describe(obj))
	}
	more, err := i.Reset(ctx, crds)
	return append(changed, more...), err
}

// surplus returns the lineage's webhook configurations, APIServices and conversions that the plan does not contain.
func (l *Live) surplus(p *Plan) ([]client.Object, []*apiextensionsv1.CustomResourceDefinition, error) {
	hooks, err := p.hooks("")
	if err != nil {
		return nil, nil, err
	}
	wanted := func(obj client.Object) bool {
		return slices.ContainsFunc(hooks, func(h hook) bool { return h.is(obj) })
	}
	objs := slices.DeleteFunc(l.own(p), func(obj client.Object) bool { return wanted(obj) || obj.GetDeletionTimestamp() != nil })
	return objs, l.converting(p), nil
}

// converting returns the lineage's CustomResourceDefinitions with a conversion that Remit configured and the plan no
// longer contains.
func (l *Live) converting(p *Plan) []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range l.crds {
		wanted := slices.ContainsFunc(p.conversions(""), func(c webhook.Conversion) bool { return c.CRD == crd.Name })
		if p.in.Owner.Owns(crd) && webhook.SetByRemit(crd, p.in.Owner.Namespace) && !wanted {
			out = append(out, crd)
		}
	}
	return out
}

// Remains returns the objects that are not garbage-collected with a deleted CSV: the webhook configurations and APIServices with
// the CSV's owner labels, and the lineage's CustomResourceDefinitions whose conversion Remit configured.
func Remains(ctx context.Context, r client.Reader, owner ownerutil.Owner, by ...client.ListOption) ([]client.Object, []*apiextensionsv1.CustomResourceDefinition, error) {
	p := &Plan{in: Input{Owner: owner, CSV: &operatorsv1alpha1.ClusterServiceVersion{}}}
	live, err := Gather(ctx, r, p, by...)
	if err != nil {
		return nil, nil, err
	}
	objs, crds, err := live.surplus(p)
	objs = slices.DeleteFunc(objs, func(obj client.Object) bool {
		labels := obj.GetLabels()
		return labels[names.LabelOwner] != ownerutil.LabelValue(owner.CSV) || labels[names.LabelOwnerNamespace] != owner.Namespace
	})
	return objs, crds, err
}

// Reset removes the conversion webhooks from CustomResourceDefinitions. It returns a description of each change.
func (i Installer) Reset(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) ([]string, error) {
	var changed []string
	for _, crd := range crds {
		patch, err := webhook.Reset(crd)
		if err != nil {
			return changed, err
		}
		if err := i.Account.Patch(ctx, crd.DeepCopy(), patch, client.FieldOwner(names.FieldManager)); client.IgnoreNotFound(err) != nil {
			return changed, fmt.Errorf("patch CustomResourceDefinition %q: %w", crd.Name, err)
		}
		changed = append(changed, "Reset the conversion of CustomResourceDefinition "+crd.Name)
	}
	return changed, nil
}

// reference returns an object with only the kind and name of a webhook configuration or APIService.
func reference(obj client.Object) *unstructured.Unstructured {
	group := admissionregistrationv1.SchemeGroupVersion
	if _, ok := obj.(*apiregistrationv1.APIService); ok {
		group = apiregistrationv1.SchemeGroupVersion
	}
	return apply.Reference(group.WithKind(apply.KindOf(obj)), "", obj.GetName())
}
