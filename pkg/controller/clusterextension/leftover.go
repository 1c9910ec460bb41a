package clusterextension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxLeftovers is the maximum number of roles and bindings that one reconcile examines, as in the operatorgroup controller.
const maxLeftovers = 20_000

// leftovers removes, after a grace period, the roles, bindings and webhooks of a ClusterExtension that was deleted without them, or
// whose deletion is delayed, if they exceed its identity (docs/adr/0082, 0088). The identity of an extension that does not exist is the user
// of its name: nothing records which ServiceAccount it named. name is the name of the extension or, if that is too long for a
// label, the label's value. leftovers returns the time until the result changes without an event.
func (r *Reconciler) leftovers(ctx context.Context, name string) (after time.Duration, err error) {
	all := &olmv1.ClusterExtensionList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list ClusterExtensions: %w", err)
	}
	for _, s := range r.sharing(all.Items, name) {
		wait, failed := s.bound(ctx)
		if after == 0 || wait != 0 && wait < after {
			after = wait
		}
		err = errors.Join(err, failed)
	}
	return after, err
}

// sharing returns what has to be examined for a name. The label can be the same for several extensions, because the name of one may
// be the label's value of another: what an extension owns that is being deleted is compared with its own identity.
func (r *Reconciler) sharing(all []olmv1.ClusterExtension, name string) []*leftover {
	first := &leftover{Reconciler: r, ext: &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	out := []*leftover{first}
	for i := range all {
		is := &all[i]
		if ownerutil.LabelValue(is.Name) != ownerutil.LabelValue(name) {
			continue
		}
		switch {
		case is.Name == name:
			first.ext = is
		case is.DeletionTimestamp != nil:
			out = append(out, &leftover{Reconciler: r, ext: is, isOther: true})
		}
		if is.DeletionTimestamp == nil || is.Name != name {
			first.others = append(first.others, is)
		}
	}
	for _, s := range out {
		s.identity = assess.Identity(s.ext)
	}
	return out
}

// leftover is the state of leftovers for one extension.
type leftover struct {
	*Reconciler

	// ext is the extension with the name; it has only a name if there is none. Or, if isOther is true, it is one with the same label
	// that is being deleted.
	ext      *olmv1.ClusterExtension
	isOther  bool
	identity scoped.Identity
	// others are the extensions whose objects are compared with their own identity: all that exist and have the same label, and
	// those with another name that are being deleted.
	others []*olmv1.ClusterExtension
	// hooks reads webhook configurations; nil if the optional identity for removals does not exist.
	hooks client.Reader
}

func (s *leftover) bound(ctx context.Context) (after time.Duration, err error) {
	r, name := s.Reconciler, s.ext.Name
	objs, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	found, err := s.bounds(r.RBAC.RulesOf).Find(objs)
	if err != nil {
		return 0, err
	}
	hooks, undecided := s.gatherHooks(ctx, len(objs) > 0)
	plan := r.ages.Plan(name, r.Clock.Now(), r.Grace, append(hooks, found...), func(client.Object) bool { return false })
	after, err = s.carryOut(ctx, plan)
	return after, errors.Join(undecided, err)
}

// carryOut reports or removes what exceeds the identity. after is the time until the result changes without an event.
func (s *leftover) carryOut(ctx context.Context, plan excess.Plan) (after time.Duration, err error) {
	r, name := s.Reconciler, s.ext.Name
	switch {
	case len(plan.Reported) == 0:
		r.told.Delete(name)
		r.attempts.Stop(name)
		return plan.After, nil
	case scoped.KeepsExcess(s.ext):
		s.announce(plan.Reported, "they are kept because of the annotation "+names.AnnotationKeepExcess)
		return plan.After, nil
	case len(plan.Due) == 0:
		s.announce(plan.Reported, "at "+plan.Ends.UTC().Format(time.RFC3339)+", Remit removes them. To keep them, grant the permissions to the "+
			s.identity.Subject().Kind+". To remove them now, run: "+status.Lines(excess.Commands(plan.Reported), maxExcess))
		return plan.After, nil
	}
	if left := r.attempts.Paused(name, r.Clock.Now()); left > 0 {
		return kit.Sooner(left, plan.After), nil
	}
	after, err = s.remove(ctx, plan.Due)
	return kit.Sooner(after, plan.After), err
}

// bounds returns the permissions of the identity.
func (s *leftover) bounds(rulesOf rbac.RoleRules) excess.Bounds {
	return excess.NewBounds(s.RBAC, rulesOf, s.Proofs, rbac.SubjectOf(s.identity))
}

// list returns the roles and bindings that Remit has created for an extension of this name and that none owns.
func (s *leftover) list(ctx context.Context) ([]client.Object, error) {
	var out []client.Object
	for _, list := range kit.RBACLists() {
		err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy, client.MatchingLabels{
			names.LabelExtensionKind: olmv1.KindClusterExtension, names.LabelExtensionName: ownerutil.LabelValue(s.ext.Name)})
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

// isLeft reports whether Remit created an object for an extension, and the run of an existing extension does not compare it with
// its identity. The label with the name only finds the object; the proof decides, for the mark of this extension.
func (s *leftover) isLeft(obj client.Object) bool {
	mark := obj.GetLabels()[names.LabelLineage]
	if !isMarkOf(s.ext.Name, mark) || s.Proofs.Check(obj, mark) != nil {
		return false
	}
	owns := func(ext *olmv1.ClusterExtension) bool {
		owner := assess.Owner(ext, "")
		owner.Proofs = s.Proofs
		return owner.Owns(obj)
	}
	if s.isOther {
		return owns(s.ext)
	}
	return !slices.ContainsFunc(s.others, owns)
}

// maxLabel is the maximum length of a label's value, and the length of those that stand for longer names.
const maxLabel = 63

// isMarkOf reports whether a mark is that of the extension with a name. Users choose the label with the name: what Remit created for
// one extension must not be compared with the identity of another. If the name may be the label's value of a longer one, the mark of
// the extension is unknown, and every mark is accepted.
func isMarkOf(name, mark string) bool {
	lineage := ownerutil.Lineage{Extension: name}
	return mark != "" && (len(name) == maxLabel || lineage.IsMark(mark))
}

// remove removes the objects whose grace period is over, as the identity or the optional identity for removals. Everything that
// the removal depends on is read again, as in removeExcess. after is the time until the next attempt, if no event triggers it.
func (s *leftover) remove(ctx context.Context, due []excess.Object) (after time.Duration, err error) {
	if current, err := s.isCurrent(ctx); err != nil || !current {
		return 0, err // a pending event triggers another reconcile
	}
	is, err := s.bounds(excess.LiveRules(ctx, s.Live)).Examine(ctx, s.reader(), s.isLeft, excess.Reviewer(s.confirmer.Ask), due)
	if err != nil {
		return 0, err
	}
	hooks, undecided := s.intercepting(ctx, is.Live, &preflight.Confirmer{Ask: s.confirmer.Ask})
	confirmed := append(hooks, is.Confirmed...)
	remain, why := confirmed, excess.ErrNoIdentity
	if len(confirmed) > 0 {
		if remain, why, err = s.removeAs(ctx, confirmed); err != nil {
			return 0, err
		}
	}
	if len(remain) > 0 {
		s.announce(remain, fmt.Sprintf("they cannot be removed (%v); to remove them, run: %s", why, status.Lines(excess.Commands(remain), maxExcess)))
	}
	if len(remain) < len(confirmed) {
		return cacheLag, undecided
	}
	after = s.attempts.Pause(s.ext.Name, s.Clock.Now())
	if is.IsComplete && len(is.Found)+len(hooks) > 0 {
		after = 0
	}
	return after, undecided
}

// isCurrent reports whether the API server knows the same extension, or none.
func (s *leftover) isCurrent(ctx context.Context) (bool, error) {
	live := &olmv1.ClusterExtension{}
	_, err := apply.Read(ctx, s.Live, client.ObjectKey{Name: s.ext.Name}, live)
	return err == nil && live.UID == s.ext.UID && live.Generation == s.ext.Generation && !scoped.KeepsExcess(live) &&
		(live.DeletionTimestamp == nil) == (s.ext.DeletionTimestamp == nil), err
}

func (s *leftover) removeAs(ctx context.Context, remain []excess.Object) (_ []excess.Object, why, err error) {
	removed := func(obj client.Object) {
		log.FromContext(ctx).Info("Removed an object that exceeds the identity", "object", apply.Describe(obj), "identity", s.identity.String())
	}
	own, denied := s.client(ctx)
	switch {
	case denied == nil:
		if remain, why, err = excess.Delete(ctx, own, remain, removed); err != nil || len(remain) == 0 {
			return remain, why, err
		}
	case scoped.ReasonOf(denied) == "":
		return remain, nil, denied
	default:
		why = denied
	}
	remover, why, err := s.Remover.Client(ctx, s.RBAC, why)
	if remover == nil {
		return remain, cmp.Or(why, excess.ErrNoIdentity), err
	}
	return excess.Delete(ctx, remover, remain, removed)
}

// client returns a client that acts as the identity, or a *scoped.Error if it cannot be used. A ServiceAccount of a namespace that was
// created again is not used, as in a run (docs/adr/0083).
func (s *leftover) client(ctx context.Context) (client.Client, error) {
	if s.identity.IsSynthetic() {
		return s.clientOf(ctx, s.identity)
	}
	x := &run{Reconciler: s.Reconciler, saved: s.ext, ext: s.ext.DeepCopy()}
	var err error
	if x.identity, _, err = x.lookUp(ctx, s.Live); err != nil {
		return nil, err
	}
	if _, err := stopRecreated(ctx, x); err != nil {
		return nil, err
	}
	return x.clientOf(ctx, x.identity)
}

// announce emits an Event about the extension, even if it does not exist, if what happens to the objects has changed.
func (s *leftover) announce(found []excess.Object, fate string) {
	text := fmt.Sprintf("%s is missing permissions: %s; an earlier installation has them through %s: %s", s.identity,
		status.Lines(excess.Missing(found, maxExcess/2), maxExcess), status.Lines(excess.Names(found), maxExcess), fate)
	if s.told.Get(s.ext.Name) == text {
		return
	}
	s.told.Set(s.ext.Name, text)
	s.Recorder.Eventf(s.ext, nil, corev1.EventTypeWarning, "LeftBehind", "Shrink", "%s", status.Note(text))
}

// orphaned returns requests for the extensions that a role or binding names as its owner, and for which Remit created it, if none of
// them owns the object. The proof is checked first, because users can name any number of owners.
func (r *Reconciler) orphaned(ctx context.Context, obj client.Object) []reconcile.Request {
	mark := obj.GetLabels()[names.LabelLineage]
	if mark == "" || r.Proofs.Check(obj, mark) != nil {
		return nil
	}
	var out []reconcile.Request
	for _, name := range namedOwners(obj) {
		if isMarkOf(name, mark) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
	}
	if len(out) == 0 || len(r.ownersOf(ctx, obj)) > 0 {
		return nil
	}
	return out
}
