package clusterextension

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// gatherHooks returns the webhook configurations that Remit has created for an extension of this name, that none owns, and that
// intercept more than the identity permits. This program may not read them itself. Next to an extension that exists, it looks only once for those of an
// earlier one, unless that has also left roles or bindings.
func (s *leftover) gatherHooks(ctx context.Context, leftMore bool) ([]excess.Object, error) {
	exists := s.ext.UID != "" && s.ext.DeletionTimestamp == nil
	if exists && !leftMore && s.unhooked.Get(s.ext.Name) == s.ext.UID {
		return nil, nil
	}
	s.unhooked.Delete(s.ext.Name)
	objs, err := s.readHooks(ctx)
	if err != nil {
		return nil, err
	}
	if exists && len(objs) == 0 {
		s.unhooked.Set(s.ext.Name, s.ext.UID)
	}
	return s.intercepting(ctx, objs, s.confirmer)
}

// readHooks lists the webhook configurations as the optional identity for removals. Without it, it returns none, and only "kubectl
// remit status" reports them: the identity of an extension usually may not list them.
func (s *leftover) readHooks(ctx context.Context) ([]client.Object, error) {
	remover, _, err := s.Remover.Client(ctx, s.RBAC, nil)
	if err != nil || remover == nil {
		return nil, err
	}
	s.hooks = remover
	return s.listHooks(ctx)
}

func (s *leftover) listHooks(ctx context.Context) ([]client.Object, error) {
	var out []client.Object
	for _, list := range kit.HookLists() {
		err := s.hooks.List(ctx, list, client.MatchingLabels{names.LabelExtensionKind: olmv1.KindClusterExtension, names.LabelExtensionName: ownerutil.LabelValue(s.ext.Name)})
		if err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // the callback never returns an error
			if obj, ok := item.(client.Object); ok && len(out) < maxLeftovers && s.isLeft(obj) {
				out = append(out, obj)
			}
			return nil
		})
	}
	return out, nil
}

// intercepting returns those of the objects that are webhook configurations and intercept more than the identity permits.
func (s *leftover) intercepting(ctx context.Context, objs []client.Object, confirmer *preflight.Confirmer) ([]excess.Object, error) {
	world := requirement.World{Reader: s.Client, Mapper: s.Client.RESTMapper(), ServerVersion: s.ServerVersion, Unserved: s.unserved}
	in := preflight.Interceptions{
		Reader: s.Client, RBAC: s.RBAC, Scopes: world.Lookups().Scopes(ctx), Confirmer: confirmer, Asker: "left by " + s.ext.Name + " intercept ",
		Identities: []scoped.Identity{s.identity}, Proofs: s.Proofs,
	}
	var out []excess.Object
	var undecided []error // they do not protect others
	for _, obj := range objs {
		if !isConfiguration(obj) {
			continue
		}
		content, err := hooks.Content(obj)
		if err != nil {
			return nil, err
		}
		cuts, err := in.Cut(ctx, content.DeepCopy())
		if err != nil {
			undecided = append(undecided, err)
			continue
		}
		if len(cuts) == 0 {
			confirmer.ForgetAll(in.Asker) // the next comparison asks the API server again
			continue
		}
		o := excess.Object{Object: obj}
		for _, cut := range cuts {
			o.Intercepts = append(o.Intercepts, cut.String())
		}
		out = append(out, o)
	}
	return out, errors.Join(undecided...)
}

func isConfiguration(obj client.Object) bool {
	switch obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration:
		return true
	}
	return false
}

// reader returns a reader from the API server. It reads webhook configurations as the identity that has listed them.
func (s *leftover) reader() client.Reader { return hookReader{s.Live, s.hooks} }

type hookReader struct {
	client.Reader
	hooks client.Reader
}

func (r hookReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if isConfiguration(obj) {
		return r.hooks.Get(ctx, key, obj, opts...)
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}
