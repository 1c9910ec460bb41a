package operatorgroup

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// gatherHooks lists the webhook configurations that Remit has created for operators of the namespace, and determines what bounds
// them. Webhooks of the default account are not bounded.
func (s *search) gatherHooks(ctx context.Context) error {
	var err error
	if s.hookBound, err = s.Default.Lookup(s.Client).HookBound(ctx, s.bound.Namespace); err != nil || s.hookBound.Default {
		return err
	}
	s.hooks, err = s.created(ctx, kit.HookLists())
	return err
}

// callsOnly reports whether an object is a webhook configuration whose webhooks are Services of a namespace.
func callsOnly(obj client.Object, namespace string) bool {
	var called []admissionregistrationv1.WebhookClientConfig
	switch c := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			called = append(called, w.ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			called = append(called, w.ClientConfig)
		}
	}
	return len(called) > 0 && !slices.ContainsFunc(called, func(c admissionregistrationv1.WebhookClientConfig) bool {
		return c.Service == nil || c.Service.Namespace != namespace
	})
}

// intercepting returns the webhook configurations that intercept more than the accounts permit, according to the cache. What cannot
// be determined is compared again later: it must not delay what else is done for the OperatorGroup.
func (s *search) intercepting(ctx context.Context) []excess.Object {
	var out []excess.Object
	for _, obj := range s.hooks {
		cuts, err := s.cut(ctx, obj, s.confirmer)
		if err != nil {
			log.FromContext(ctx).Info("Cannot determine whether webhooks exceed the account", "object", apply.Describe(obj), "reason", err.Error())
			s.recheck = kit.Sooner(s.recheck, preflight.Settling)
			continue
		}
		if len(cuts) > 0 {
			out = append(out, excess.Object{Object: obj, Intercepts: cuts})
		}
	}
	s.recheck = kit.Sooner(s.recheck, s.confirmer.Recheck(s.asker()))
	return out
}

// confirmHooks returns those of the live objects that are webhook configurations and for which the API server confirms now that they
// intercept more than the accounts permit.
func (s *search) confirmHooks(ctx context.Context, live []client.Object) ([]excess.Object, error) {
	var out []excess.Object
	for _, obj := range live {
		if !isHook(obj) {
			continue
		}
		cuts, err := s.cut(ctx, obj, &preflight.Confirmer{Ask: s.ask})
		if err != nil {
			return nil, err
		}
		if len(cuts) > 0 {
			out = append(out, excess.Object{Object: obj, Intercepts: cuts})
			continue
		}
		s.confirmer.ForgetAll(s.asker()) // the API server allows what it denied earlier
		s.again = true
	}
	return out, nil
}

func isHook(obj client.Object) bool {
	switch obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration:
		return true
	}
	return false
}

// cut describes what a webhook configuration intercepts although none of the accounts permits it.
func (s *search) cut(ctx context.Context, obj client.Object, confirmer *preflight.Confirmer) ([]string, error) {
	content, err := hooks.Content(obj)
	if err != nil {
		return nil, err
	}
	world := requirement.World{Reader: s.Client, Mapper: s.Client.RESTMapper(), Unserved: s.unserved}
	in := preflight.Interceptions{Reader: s.Client, RBAC: s.RBAC, Scopes: world.Lookups().Scopes(ctx), Confirmer: confirmer, Asker: s.asker(), Proofs: s.Proofs}
	for _, key := range s.hookBound.Accounts {
		in.Identities = append(in.Identities, scoped.Account{Namespace: key.Namespace, Name: key.Name}.Identity())
	}
	cuts, err := in.Cut(ctx, content.DeepCopy())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, cut := range cuts {
		out = append(out, cut.String())
	}
	return out, nil
}

// asker is the prefix of the keys with which the answers of the API server about interceptions are cached.
func (s *search) asker() string { return s.bound.Namespace + " intercept " }

// isCurrent reports whether the OperatorGroups and the recorded accounts are the same according to the API server.
func (s *search) isCurrent(ctx context.Context) (bool, error) {
	lookup := scoped.Lookup{Reader: s.Live, Default: s.Default, Live: true}
	current, err := lookup.Bound(ctx, s.bound.Namespace)
	if err != nil || !current.Same(s.bound) {
		return false, err
	}
	if len(s.hooks) == 0 {
		return true, nil
	}
	current, err = lookup.HookBound(ctx, s.bound.Namespace)
	return err == nil && current.Same(s.hookBound), err
}
