package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxExcess is the maximum size in bytes of each list in the condition ExceedsIdentity.
const maxExcess = 700

// bound takes from an installed operator what exceeds the identity. It does so whatever prevents the run from continuing, such as
// a missing catalog or ServiceAccount: RBAC refers to the ServiceAccount by name.
func (s *run) bound(ctx context.Context) error {
	if s.identity == (scoped.Identity{}) {
		return nil // the identity could not be determined, which is retried
	}
	s.owner = assess.Owner(s.ext, s.owner.CSV)
	s.owner.Proofs = s.Proofs
	return errors.Join(s.narrow(ctx), s.shrink(ctx))
}

// shrink finds the extension's roles and bindings that its identity would not be allowed to write any more, reports
// them, and removes them after a grace period (docs/adr/0071). Once the identity has the permissions again, the run restores the
// objects.
func (s *run) shrink(ctx context.Context) error {
	have, err := s.rbacObjects(ctx)
	if err != nil {
		return err
	}
	holder := s.exceeding(s.RBAC.RulesOf)
	found, err := holder.Find(have)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		s.excess.Stop(s.ext.UID)
		s.endExcess()
		return nil
	case scoped.KeepsExcess(s.ext):
		s.excess.Stop(s.ext.UID)
		s.setExcess(olmv1.ReasonKept, found, "they are kept because of the annotation "+names.AnnotationKeepExcess)
		return nil
	}
	if left := s.excess.Paused(s.ext.UID, s.Clock.Now()); left > 0 {
		s.wakeAfter(left) // the condition of the last attempt remains
		return nil
	}
	due := s.excess.Deadline(s.ext.UID, s.Clock.Now(), s.excessReported(), s.Grace)
	s.setExcess(olmv1.ReasonGracePeriod, found, fmt.Sprintf("at %s, Remit removes them. To keep them, grant the permissions to the %s, or set the annotation %s=true",
		due.UTC().Format(time.RFC3339), s.identity.Subject().Kind, names.AnnotationKeepExcess))
	if left := due.Sub(s.Clock.Now()); left > 0 {
		s.wakeAfter(left)
		return nil
	}
	return s.removeExcess(ctx, found)
}

// exceeding compares objects with the identity's permissions.
func (s *run) exceeding(rulesOf rbac.RoleRules) excess.Bounds {
	return excess.NewBounds(s.RBAC, rulesOf, s.Proofs, rbac.SubjectOf(s.identity))
}

// rbacObjects returns the cached roles and bindings that Remit has created for the extension, bindings first. Those that
// are being deleted are included: a finalizer can keep them in effect.
func (s *run) rbacObjects(ctx context.Context) ([]client.Object, error) {
	var out []client.Object
	for _, list := range kit.RBACLists() {
		if err := s.Client.List(ctx, list, s.owner.Marked(), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok && s.owner.Owns(obj) {
				out = append(out, obj)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// excessReported returns when the status first reported the current excess, or the zero time.
func (s *run) excessReported() time.Time {
	if was := s.savedCondition(olmv1.TypeExceedsIdentity); was != nil && was.Status == metav1.ConditionTrue && was.Reason == olmv1.ReasonGracePeriod {
		return was.LastTransitionTime.Time
	}
	return time.Time{}
}

// removeExcess removes the roles and bindings whose grace period is over, as the identity.
func (s *run) removeExcess(ctx context.Context, cached []excess.Object) error {
	is, err := s.confirmExcess(ctx, cached)
	confirmed := is.Confirmed
	if err != nil || len(confirmed) == 0 {
		return err
	}
	own, why := s.clientOf(ctx, s.identity)
	remain := confirmed
	switch {
	case why == nil:
		if remain, why, err = s.deleteExcess(ctx, own, confirmed); err != nil {
			return err
		}
	case scoped.ReasonOf(why) == "":
		return why
	}
	if len(remain) > 0 {
		if remain, why, err = s.deleteExcessAsRemover(ctx, remain, why); err != nil {
			return err
		}
	}
	if len(remain) == 0 {
		s.setExcess(olmv1.ReasonRemoved, confirmed, "Remit has removed them, and restores them when the identity has the permissions again")
		return nil
	}
	if len(remain) == len(confirmed) {
		s.pauseExcess(is)
	}
	s.setExcess(olmv1.ReasonNotRemoved, confirmed, fmt.Sprintf("they cannot be removed (%s); to remove them, run: %s", why, status.Lines(excess.Commands(remain), maxExcess)))
	return nil
}

// confirmExcess examines the objects. Everything that the removal depends on is read again, also the extension. The event for an object
// that has changed triggers another run.
func (s *run) confirmExcess(ctx context.Context, cached []excess.Object) (is excess.Examined, err error) {
	if current, err := s.removesExcess(ctx); err != nil || !current {
		return is, err
	}
	is, err = s.exceeding(excess.LiveRules(ctx, s.Live)).Examine(ctx, s.Live, s.owner.Owns, excess.Reviewer(s.confirmer.Ask), cached)
	if err == nil && len(is.Confirmed) == 0 {
		s.keepExcess(cached, is)
	}
	return is, err
}

// keepExcess reports what exceeds the identity according to the cache, although nothing was confirmed.
func (s *run) keepExcess(cached []excess.Object, is excess.Examined) {
	s.pauseExcess(is)
	switch {
	case !is.IsComplete:
		s.setExcess(olmv1.ReasonKept, cached, is.Kept("identity"))
	case len(is.Found) > 0:
		s.setExcess(olmv1.ReasonKept, is.Found, is.Kept("identity"))
	}
}

// pauseExcess delays the next attempt, because this one has removed nothing.
func (s *run) pauseExcess(is excess.Examined) {
	if left := s.excess.Pause(s.ext.UID, s.Clock.Now()); !is.IsComplete {
		s.wakeAfter(left)
	}
}

// removesExcess reports whether the extension in the API server still has the same identity, and does not keep the
// excess.
func (s *run) removesExcess(ctx context.Context) (bool, error) {
	live := &olmv1.ClusterExtension{}
	exists, err := apply.Read(ctx, s.Live, client.ObjectKey{Name: s.ext.Name}, live)
	return err == nil && exists && live.UID == s.ext.UID && live.DeletionTimestamp == nil && live.Generation == s.ext.Generation && !scoped.KeepsExcess(live), err
}

// deleteExcessAsRemover deletes the objects that the identity may not delete as the optional identity for removals, if there
// is one. why is the reason that the identity could not delete them.
func (s *run) deleteExcessAsRemover(ctx context.Context, objs []excess.Object, why error) (remain []excess.Object, reason, err error) {
	own, why, err := s.Remover.Client(ctx, s.RBAC, why)
	if own == nil {
		return objs, why, err
	}
	return s.deleteExcess(ctx, own, objs)
}

// deleteExcess deletes the objects as the identity. It returns those that the identity is not allowed to delete, and the
// reason.
func (s *run) deleteExcess(ctx context.Context, own client.Client, objs []excess.Object) (remain []excess.Object, why, err error) {
	return excess.Delete(ctx, own, objs, func(obj client.Object) {
		log.FromContext(ctx).Info("Removed an object that exceeds the identity", "object", apply.Describe(obj), "identity", s.identity.String())
		s.Recorder.Eventf(s.ext, nil, corev1.EventTypeWarning, "PermissionsRemoved", "Shrink", "%s",
			status.Note("removed "+apply.Describe(obj)+", because it exceeds "+s.identity.String()))
	})
}

// setExcess sets the condition ExceedsIdentity.
func (s *run) setExcess(reason string, found []excess.Object, fate string) {
	text := message.Sprintf("%s is missing permissions: %s; the operator has them through %s: %s",
		s.identity, status.Lines(excess.Missing(found, maxExcess/2), maxExcess), status.Lines(excess.Names(found), maxExcess), fate)
	s.setCondition(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, reason, message.Lines(text, s.overreach.text))
}

// endExcess removes the condition ExceedsIdentity, unless webhooks exceed the identity. After a removal, it remains until the identity has all permissions.
func (s *run) endExcess() {
	if s.overreach.reason != "" {
		s.setCondition(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, s.overreach.reason, s.overreach.text)
		return
	}
	was := meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeExceedsIdentity)
	hasAll := s.checked && s.findings.Empty()
	if was != nil && (was.Reason != olmv1.ReasonRemoved || hasAll) {
		meta.RemoveStatusCondition(&s.ext.Status.Conditions, olmv1.TypeExceedsIdentity)
	}
}
