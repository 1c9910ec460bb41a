package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

// narrow removes from the extension's webhooks what its identity is no longer permitted to intercept, and reports it
// (docs/adr/0089). This program may not read the webhooks,
// so it reads them as the identity, and only if the identity is not known to have all permissions of the install.
func (s *run) narrow(ctx context.Context) error {
	found := s.hooksToNarrow()
	if s.checked && s.findings.Empty() && len(s.findings.Doubts()) == 0 && !slices.ContainsFunc(found, s.isOfEarlier) {
		return nil
	}
	var failed []error // one that is undecided does not protect others
	for _, h := range found {
		failed = append(failed, s.narrowOne(ctx, h))
	}
	return errors.Join(failed...)
}

// isOfEarlier reports whether a webhook configuration is not part of the rendered version, whose permissions were checked.
func (s *run) isOfEarlier(h narrowable) bool {
	return !slices.ContainsFunc(s.steps, func(st step.Step) bool { return keyOf(st.Object) == keyOf(h.Unstructured) })
}

// narrowable is a reference to a webhook configuration that the extension may have.
type narrowable struct {
	*unstructured.Unstructured
	// isInstalled is true if the configuration is known to belong to the installed version, even if it cannot be read.
	isInstalled bool
}

// hooksToNarrow returns the webhook configurations in the inventory and, once a version is installed, those of the rendered version:
// an inventory that was emptied does not keep a webhook.
func (s *run) hooksToNarrow() []narrowable {
	var out []narrowable
	seen := map[string]bool{}
	add := func(group, kind, name string, isInstalled bool) {
		obj := apply.Reference(schema.GroupVersionKind{Group: group, Version: admissionregistrationv1.SchemeGroupVersion.Version, Kind: kind}, "", name)
		if key := keyOfKind(obj); group == admissionregistrationv1.GroupName && isHook(obj) && !seen[key] {
			seen[key] = true
			out = append(out, narrowable{obj, isInstalled})
		}
	}
	for _, o := range s.saved.Status.Inventory {
		add(o.Group, o.Kind, o.Name, true)
	}
	if is := s.saved.Status.Install; is != nil {
		for _, st := range s.steps {
			add(st.Object.GroupVersionKind().Group, st.Object.GetKind(), st.Object.GetName(), is.Bundle.Version == s.version())
		}
	}
	return out
}

// narrowOne narrows one webhook configuration, if it exists and belongs to the extension. The API server confirms that it denies the identity what is removed.
func (s *run) narrowOne(ctx context.Context, obj narrowable) error {
	own, err := s.clientOf(ctx, s.identity)
	var live, desired *unstructured.Unstructured
	if err == nil {
		live, desired, err = hooks.Editable(ctx, own, obj.Unstructured)
	}
	if isRefusal(err) {
		s.reportUnread(obj, err)
		return nil
	}
	if err != nil || live == nil || !s.owner.Owns(live) {
		return err
	}
	cuts, err := s.interceptions(ctx, s.confirmer).Cut(ctx, desired.DeepCopy())
	if err != nil || len(cuts) == 0 {
		s.wakeAfter(s.confirmer.Recheck(s.asker()))
		return err
	}
	if scoped.KeepsExcess(s.ext) {
		s.setIntercepts(olmv1.ReasonKept, preflight.DescribeCuts(cuts, maxExcess), "they are kept because of the annotation "+names.AnnotationKeepExcess)
		return nil
	}
	if current, err := s.removesExcess(ctx); err != nil || !current {
		return err
	}
	if cuts, err = s.interceptions(ctx, &preflight.Confirmer{Ask: s.confirmer.Ask}).Cut(ctx, desired); err != nil || len(cuts) == 0 {
		s.confirmer.ForgetAll(s.asker()) // the API server allows what it denied earlier
		s.wakeAfter(preflight.Settling)
		return err
	}
	return s.writeNarrowed(ctx, own, live, desired, preflight.DescribeCuts(cuts, maxExcess))
}

// reportUnread reports that it is unknown what a webhook configuration of the installed version may intercept.
func (s *run) reportUnread(obj narrowable, why error) {
	if obj.isInstalled {
		s.setIntercepts(olmv1.ReasonNotRemoved, apply.Describe(obj.Unstructured), fmt.Sprintf("whether it may intercept these requests is unknown (%s); to remove it, run: %s", why, excess.Command(obj.Unstructured)))
	}
}

// writeNarrowed writes a narrowed webhook configuration as the identity.
func (s *run) writeNarrowed(ctx context.Context, own client.Client, live, desired *unstructured.Unstructured, cuts string) error {
	_, made, err := apply.From(ctx, own, live, desired, s.owner)
	if err == nil && !apply.Contains(made.Object["webhooks"], desired.Object["webhooks"]) {
		err = apply.NewCollision(live, errors.New("another client manages fields of the webhook"))
	}
	switch {
	case isRefusal(err):
		s.setIntercepts(olmv1.ReasonNotRemoved, cuts, fmt.Sprintf("the webhooks cannot be changed (%s); to remove them, run: %s", err, excess.Command(live)))
		return nil
	case err != nil:
		return err
	}
	log.FromContext(ctx).Info("Narrowed a webhook that exceeds the identity", "object", apply.Describe(live), "identity", s.identity.String())
	s.Recorder.Eventf(s.ext, nil, corev1.EventTypeWarning, "WebhookNarrowed", "Narrow", "%s",
		status.Note("removed from "+apply.Describe(live)+" what exceeds "+s.identity.String()+": "+cuts))
	s.setIntercepts(olmv1.ReasonRemoved, cuts, "Remit has removed this, and restores it when the identity has the permissions again")
	return nil
}

// isRefusal reports whether an error means that the identity cannot or may not do something.
func isRefusal(err error) bool {
	return scoped.ReasonOf(err) != "" || apierrors.IsForbidden(err) || apply.IsCollision(err) || apply.IsFieldConflict(err)
}

// interceptions determines what the webhooks of the extension may intercept.
func (s *run) interceptions(ctx context.Context, confirmer *preflight.Confirmer) preflight.Interceptions {
	return preflight.Interceptions{
		Reader: s.Client, RBAC: s.RBAC, Scopes: s.lookups.Scopes(ctx), Confirmer: confirmer, Asker: s.asker(), Identities: []scoped.Identity{s.identity}, Proofs: s.Proofs,
	}
}

// asker is the prefix of the keys with which the answers of the API server about interceptions are cached.
func (s *run) asker() string { return string(s.ext.UID) + " intercept " }

// setIntercepts records webhooks for the condition ExceedsIdentity, which shrink sets.
func (s *run) setIntercepts(reason, webhooks, fate string) {
	s.overreach.reason = reason
	s.overreach.text = message.Lines(s.overreach.text, message.Sprintf("%s is missing permissions to read and write what the operator intercepts through %s: %s",
		s.identity, webhooks, fate))
}
