package clusterextension

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// secretCheckInterval is how often certificates are checked if nothing else is due, because users may edit their Secrets.
const secretCheckInterval = 10 * time.Minute

// issues reports whether Remit issues the certificates of the extension.
func (s *run) issues() bool { return !s.rendered.Hooks.Empty() && !s.rendered.Hooks.Outsourced() }

// mustCertify reports whether to check the certificates before the objects of this phase are written. This is the case
// in the phase of the first object that certify writes, if a Deployment has no certificate yet or the next check is due.
func (s *run) mustCertify(phase render.Phase) bool {
	if !s.issues() || s.certified || phase != firstCertified(s.rendered) {
		return false
	}
	is := s.memory.Get(s.key())
	isNew := func(d serving.Deployment) bool { return is.certificates[d.Name].IsZero() }
	return slices.ContainsFunc(s.rendered.Hooks.Served, isNew) || !s.Clock.Now().Before(is.certifyAt)
}

// firstCertified returns the phase of the first object that certify writes.
func firstCertified(r *render.Rendered) render.Phase {
	for _, o := range r.Objects {
		if o.Certified {
			return o.Phase
		}
	}
	return ""
}

// certify issues or rotates the certificates of the Deployments, writes their Services and Secrets, and renders the other
// objects again with these certificates.
func (s *run) certify(ctx context.Context) error {
	plan := s.rendered.Hooks
	live, err := s.liveHooks(ctx)
	if err != nil {
		return err
	}
	sets, next := map[string]cert.Set{}, secretCheckInterval
	for _, d := range plan.Served {
		c, err := s.installer().Certify(ctx, plan, live, d, func(...hooks.Need) error { return nil }) // checkPermissions checked them
		if err != nil {
			return err
		}
		if c.After > 0 {
			next = min(next, c.After)
		}
		if c.Done != cert.Keep {
			log.FromContext(ctx).Info("Updated certificate", "deployment", d.Name, "action", c.Done, "reason", c.Reason, "expires", c.Expires)
		}
		sets[d.Name] = plan.Certificates(d.Name).Public()
	}
	s.memory.Change(s.key(), func(is *remembered) {
		is.certificates, is.certifyAt = sets, s.Clock.Now().Add(next)
		is.issuedFor = types.NamespacedName{Namespace: s.owner.Namespace, Name: s.owner.CSV}
	})
	s.certified = true
	if err := s.renderWith(ctx, sets); err != nil {
		return err
	}
	s.moveStates()
	return nil
}

// moveStates assigns the known states of objects to the steps that were rendered again with certificates. It drops the
// states of objects that certify may have changed.
func (s *run) moveStates() {
	known := map[string]execute.State{}
	for obj, state := range s.states {
		known[keyOf(obj)] = state
	}
	s.states = map[*unstructured.Unstructured]execute.State{}
	for _, st := range s.steps {
		state, ok := known[keyOf(st.Object)]
		if !ok || s.certifies(st.Object) || isHook(st.Object) || st.IsCRD() || st.Object.GetKind() == "APIService" {
			continue
		}
		state.Step = st
		s.states[st.Object] = state
	}
}

// noticeEdit schedules an immediate check of the certificates if a Service or Secret that certify wrote has changed.
func (s *run) noticeEdit(ctx context.Context, obj *unstructured.Unstructured) error {
	live, known, err := s.observe(ctx, obj)
	if err != nil || !known {
		return err
	}
	version := uint64(0)
	if live != nil {
		version = versionOf(live)
	}
	s.memory.Change(s.key(), func(is *remembered) {
		if is.served == nil {
			is.served = map[string]uint64{}
		}
		was, seen := is.served[keyOf(obj)]
		if is.served[keyOf(obj)] = version; seen && was != version {
			is.certifyAt = time.Time{}
		}
	})
	return nil
}

// installer returns an installer of certificates, webhooks and conversions. It reads objects itself before it writes them, so
// that checkOwner cannot check them: instead, the extension is read again before each write.
func (s *run) installer() hooks.Installer {
	return hooks.Installer{Account: &current{s.executor.Account, s.checkCurrent}, Policy: s.Options.Certificates, Now: s.Clock.Now(), Memory: s.issued}
}

// current is a client that calls check before it applies or patches an object. If check returns an error, nothing is sent.
type current struct {
	client.Client
	check func(context.Context) error
}

// Apply implements client.Writer.
func (c *current) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.Client.Apply(ctx, obj, opts...)
}

// Patch implements client.Writer.
func (c *current) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// liveHooks reads, as the identity, the objects through which the API server calls the operator.
func (s *run) liveHooks(ctx context.Context) (*hooks.Live, error) {
	var steps []step.Step
	for _, st := range s.steps {
		if s.certifies(st.Object) || isHook(st.Object) || s.rendered.Hooks.Serves(st.Object.GetName()) && st.Object.GetKind() == "Deployment" {
			steps = append(steps, st)
		}
	}
	read := &found{Client: s.Client}
	for _, st := range steps {
		obj, err := apply.Live(ctx, s.executor.Account, st.Object)
		if err != nil {
			return nil, err
		}
		if obj != nil {
			read.objects = append(read.objects, obj)
		}
	}
	return hooks.Gather(ctx, read, s.rendered.Hooks)
}

// isHook reports whether an object is a webhook configuration. The controller identity does not watch these.
func isHook(obj *unstructured.Unstructured) bool {
	kind := obj.GetKind()
	return kind == "ValidatingWebhookConfiguration" || kind == "MutatingWebhookConfiguration"
}

// convert configures the conversion webhooks of CustomResourceDefinitions once their Deployments are available.
func (s *run) convert(ctx context.Context) error {
	if len(s.rendered.Hooks.Conversions()) == 0 {
		return nil
	}
	live, err := s.liveHooks(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.rendered.Hooks.Served {
		if _, err := s.installer().Ensure(ctx, s.rendered.Hooks, live, d.Name); err != nil {
			return err
		}
	}
	return nil
}

// wakeForCertificates schedules the next check of the certificates that were issued.
func (s *run) wakeForCertificates() {
	if is := s.memory.Get(s.key()); s.issues() && is.certificates != nil {
		s.wakeAfter(max(is.certifyAt.Sub(s.Clock.Now()), time.Second))
	}
}
