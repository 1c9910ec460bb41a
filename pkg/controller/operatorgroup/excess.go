package operatorgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxExamined is the maximum number of roles and bindings of a namespace's operators that one reconcile examines. Remit has
// created all of them: two for each of a thousand targets of an operator.
const maxExamined = 20_000

// maxExcess is the maximum size in bytes of each list in the condition ExceedsAccount.
const maxExcess = 700

// Reasons of the condition names.ConditionExceedsAccount.
const (
	ReasonWithin      = "WithinAccount"
	ReasonGracePeriod = "GracePeriod"
	ReasonKept        = "Kept"
	ReasonRemoved     = "Removed"
	ReasonNotRemoved  = "NotRemoved"
)

// Excess describes the roles, bindings and webhooks without a ClusterServiceVersion that exceed the account, and what happens to
// them. The zero value means that there are none to report.
type Excess struct {
	Reason, Message string
	objects         []excess.Object
	// left describes, by namespace, only the objects in that namespace. It contains the namespaces of the first maxAnnounced objects.
	left map[string]string
}

// fate describes what happens to objects.
type fate struct {
	// is is followed by why, which only users of the operators' namespace may read, and by command, the introduction of the commands
	// that remove the objects; "" omits these.
	is, why, command string
}

// describe describes the fate of objects. own means that users of the operators' namespace read it.
func (f fate) describe(objs []excess.Object, own bool) string {
	out := f.is
	if own {
		out += f.why
	}
	if f.command != "" {
		out += f.command + status.Lines(excess.Commands(objs), maxExcess)
	}
	return out
}

// checkExcess finds the roles and bindings that Remit has created for operators of a namespace and that the account would not
// be allowed to write, and the webhooks that intercept what it may not, and removes them after a grace period (docs/adr/0082, 0088). It starts from these objects and not from
// ClusterServiceVersions, because users can delete a ClusterServiceVersion without its objects. after is the time until the
// result changes without an event.
func (r *Reconciler) checkExcess(ctx context.Context, namespace string) (out Excess, after time.Duration, err error) {
	bound, err := r.Default.Lookup(r.Client).Bound(ctx, namespace)
	if err != nil || bound.LeftToOLM {
		r.forgetExcess(namespace)
		return out, 0, err
	}
	s := search{Reconciler: r, bound: bound}
	if err := errors.Join(s.gather(ctx), s.gatherHooks(ctx)); err != nil {
		return out, 0, err
	}
	if s.namespace.Name == "" || s.namespace.DeletionTimestamp != nil {
		r.forgetExcess(namespace) // its ServiceAccounts are deleted, and nothing can be written in it
		return out, 0, nil
	}
	found, err := s.accounts(r.RBAC.RulesOf).Find(s.objects)
	if err != nil {
		return out, 0, err
	}
	plan := r.ages.Plan(namespace, r.Clock.Now(), r.Grace, append(s.intercepting(ctx), found...), s.isClaimed)
	plan.After = kit.Sooner(plan.After, s.recheck)
	return s.carryOut(ctx, plan)
}

func (r *Reconciler) forgetExcess(namespace string) {
	r.ages.Forget(namespace)
	r.attempts.Stop(namespace)
}

// carryOut reports or removes what exceeds the account. after is the time until the result changes without an event.
func (s *search) carryOut(ctx context.Context, plan excess.Plan) (out Excess, after time.Duration, err error) {
	r, bound, namespace := s.Reconciler, s.bound, s.bound.Namespace
	switch {
	case len(plan.Reported) == 0:
		r.attempts.Stop(namespace)
		return out, plan.After, nil
	case bound.KeptBy != "":
		return s.report(ReasonKept, plan.Reported, fate{is: "they are kept", why: fmt.Sprintf(" because of the annotation %s of OperatorGroup %s/%s",
			names.AnnotationKeepExcess, namespace, bound.KeptBy)}), plan.After, nil
	case len(plan.Due) == 0:
		return s.report(ReasonGracePeriod, plan.Reported, fate{
			is:  fmt.Sprintf("at %s, Remit removes them", plan.Ends.UTC().Format(time.RFC3339)),
			why: ". " + bound.Remedy(), command: ". To remove them now, run: ",
		}), plan.After, nil
	}
	if left := r.attempts.Paused(namespace, r.Clock.Now()); left > 0 {
		return r.told.Get(namespace), kit.Sooner(plan.After, left), nil
	}
	out, after, err = s.remove(ctx, plan.Due)
	return out, kit.Sooner(plan.After, after), err
}

// search is the state of one checkExcess.
type search struct {
	*Reconciler

	// bound is what bounds roles and bindings, and hookBound what bounds webhooks.
	bound, hookBound scoped.Bound
	namespace        corev1.Namespace
	// hooks are the webhook configurations that Remit has created for operators of the namespace. recheck is the time until they have
	// to be compared again, or 0.
	hooks   []client.Object
	recheck time.Duration
	// objects are the roles and bindings that Remit has created for operators of the namespace, bindings first.
	objects []client.Object
	// owners contains the values of the owner labels of objects whose ClusterServiceVersion exists.
	owners map[string]bool
	// again is true if the API server allows what it denied earlier.
	again bool
}

// gather lists the objects and the ClusterServiceVersions of the namespace. Labels only find the objects; the proofs decide.
func (s *search) gather(ctx context.Context) error {
	if _, err := apply.Read(ctx, s.Client, client.ObjectKey{Name: s.bound.Namespace}, &s.namespace); err != nil {
		return err
	}
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := s.Client.List(ctx, csvs, client.InNamespace(s.bound.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ClusterServiceVersions in namespace %q: %w", s.bound.Namespace, err)
	}
	s.owners = map[string]bool{}
	for i := range csvs.Items {
		if csv := &csvs.Items[i]; csv.DeletionTimestamp == nil && csv.Labels[names.LabelCopiedFrom] == "" {
			s.owners[ownerutil.LabelValue(csv.Name)] = true
		}
	}
	var err error
	if s.objects, err = s.created(ctx, kit.RBACLists()); err != nil {
		return err
	}
	slices.SortStableFunc(s.objects, func(a, b client.Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return nil
}

// created lists the objects that Remit has created for operators of the namespace.
func (s *search) created(ctx context.Context, lists []client.ObjectList) (out []client.Object, err error) {
	for _, list := range lists {
		err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy, client.MatchingFields{kit.OwnerNamespaceIndex: s.bound.Namespace},
			client.MatchingLabels{names.LabelOwnerKind: operatorsv1alpha1.ClusterServiceVersionKind})
		if err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // the callback never returns an error
			if obj, ok := item.(client.Object); ok && len(out) < maxExamined && s.isCreated(obj) {
				out = append(out, obj)
			}
			return nil
		})
	}
	return out, nil
}

// isCreated reports whether Remit created a role, binding or webhook configuration for an operator of the namespace. The object's component label
// names a lineage of the namespace, and the proof is valid for that lineage. A long package name does not fit into the label; then the
// proof must be valid for the lineage in its label, and where the object is, or its name, shows the namespace.
func (s *search) isCreated(obj client.Object) bool {
	own := s.bound.Namespace
	if _, ok := ownerutil.OwnerIn(obj, own, s.namespace.CreationTimestamp.Time, s.Proofs); ok {
		return true
	}
	if !ownerutil.IsProven(obj, s.Proofs) {
		return false
	}
	switch obj.GetNamespace() {
	case own:
		return true // for any subjects
	case rbac.ClusterScope:
		return bindsOnly(obj, own) || callsOnly(obj, own)
	}
	return s.isGranted(obj)
}

// maxSubjects is the maximum number of subjects for which isGranted computes the name of a binding. Remit's own have one.
const maxSubjects = 10

// isGranted reports whether the name of a binding in another namespace, to which its proof applies, shows that Remit created it for
// one of its subjects, a ServiceAccount of the OperatorGroup's namespace. Users of that namespace choose its labels and subjects: what
// Remit created for their own operators must not be reported as an excess of others (docs/adr/0082).
func (s *search) isGranted(obj client.Object) bool {
	b, ok := obj.(*rbacv1.RoleBinding)
	if !ok || !bindsOnly(b, s.bound.Namespace) {
		return false
	}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: s.bound.Namespace}}
	reach := deployment.Reach{RBAC: s.RBAC}
	return slices.ContainsFunc(b.Subjects[:min(len(b.Subjects), maxSubjects)], func(to rbacv1.Subject) bool {
		return reach.IsRenderedFor(b, to.Name, owner)
	})
}

// bindsOnly reports whether an object is a binding of ServiceAccounts of a namespace.
func bindsOnly(obj client.Object, namespace string) bool {
	var subjects []rbacv1.Subject
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		subjects = b.Subjects
	case *rbacv1.ClusterRoleBinding:
		subjects = b.Subjects
	}
	return len(subjects) > 0 && !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind != rbacv1.ServiceAccountKind || cmp.Or(s.Namespace, obj.GetNamespace()) != namespace
	})
}

// isClaimed reports whether a ClusterServiceVersion exists that an object names as its owner. The csv controller then compares
// the object first, unless it does not recognize the object.
func (s *search) isClaimed(obj client.Object) bool {
	return s.owners[obj.GetLabels()[names.LabelOwner]]
}

// accounts returns the permissions of the namespace's accounts.
func (s *search) accounts(rulesOf rbac.RoleRules) excess.Bounds {
	subjects := make([]rbac.Subject, 0, len(s.bound.Accounts))
	for _, account := range s.bound.Accounts {
		subjects = append(subjects, rbac.ServiceAccount(account.Namespace, account.Name))
	}
	return excess.NewBounds(s.RBAC, rulesOf, s.Proofs, subjects...)
}

// report describes objects that exceed the accounts, and what happens to them.
func (s *search) report(reason string, found []excess.Object, what fate) Excess {
	out := Excess{Reason: reason, objects: found, Message: describe(s.bound.String(), found, what.describe(found, true)), left: map[string]string{}}
	for _, o := range found[:min(len(found), maxAnnounced)] {
		namespace := o.Object.GetNamespace()
		if _, ok := out.left[namespace]; !ok {
			out.left[namespace] = s.describeIn(namespace, found, what)
		}
	}
	return out
}

// describeIn describes the objects in one namespace. In a namespace other than the operators' own, whose users may not know anything
// about the operators, it names no other namespace, account or webhook, and no reason why the objects remain.
func (s *search) describeIn(namespace string, found []excess.Object, what fate) string {
	var in []excess.Object
	for _, o := range found {
		if o.Object.GetNamespace() == namespace {
			in = append(in, o)
		}
	}
	if namespace == s.bound.Namespace {
		return describe(s.bound.String(), in, what.describe(in, true))
	}
	for i := range in {
		if len(in[i].Intercepts) > 0 {
			in[i].Intercepts = []string{"the configuration"} // describes where
		}
	}
	return describe("the account of the operators", in, what.describe(in, false))
}

func describe(who string, found []excess.Object, fate string) string {
	return fmt.Sprintf("%s is missing permissions: %s; operators have them through %s, which Remit has created: %s",
		who, status.Lines(excess.Missing(found, maxExcess/2), maxExcess), status.Lines(excess.Names(found), maxExcess), fate)
}

// remove removes the objects whose grace period is over, as the account, the default account or the optional identity for
// removals. Everything that the removal depends on is read again, also the OperatorGroups. after is the time until the next attempt.
func (s *search) remove(ctx context.Context, due []excess.Object) (out Excess, after time.Duration, err error) {
	if current, err := s.isCurrent(ctx); err != nil || !current {
		return out, 0, err
	}
	is, err := s.accounts(excess.LiveRules(ctx, s.Live)).Examine(ctx, s.Live, s.isCreated, excess.Reviewer(s.ask), due)
	if err != nil {
		return out, 0, err
	}
	hooks, err := s.confirmHooks(ctx, is.Live)
	if err != nil {
		return out, 0, err
	}
	confirmed, found := append(hooks, is.Confirmed...), append(hooks, is.Found...)
	if len(confirmed) == 0 {
		out, after = s.keep(due, found, is)
		return out, after, nil
	}
	remain, why, err := s.removeAs(ctx, confirmed)
	switch {
	case err != nil:
		return out, 0, err
	case len(remain) < len(confirmed):
		after = cacheLag
	default:
		after = s.attempts.Pause(s.bound.Namespace, s.Clock.Now())
	}
	if len(remain) == 0 {
		return s.report(ReasonRemoved, confirmed, fate{is: "Remit has removed them"}), after, nil
	}
	return s.report(ReasonNotRemoved, remain, fate{is: "they cannot be removed", why: fmt.Sprintf(" (%v)", why), command: "; to remove them, run: "}), after, nil
}

// keep reports what exceeds the accounts according to the cache, or to reads of the API server (found), although nothing was confirmed.
// after is the time until the next attempt, if no event triggers it.
func (s *search) keep(due, found []excess.Object, is excess.Examined) (out Excess, after time.Duration) {
	if is.IsComplete && len(found) == 0 && s.again {
		return out, cacheLag // without these, the next reconcile reports the excess that the cache contains
	}
	after = s.attempts.Pause(s.bound.Namespace, s.Clock.Now())
	switch {
	case !is.IsComplete:
		return s.report(ReasonKept, due, fate{is: is.Kept("ServiceAccount")}), after
	case len(found) == 0: // the cache will show this
		return out, after
	}
	return s.report(ReasonKept, found, fate{is: is.Kept("ServiceAccount")}), 0
}

// removeAs deletes the objects as each of the identities that may be used, in turn: the accounts that bound the namespace, the default
// account, and the optional identity for removals.
func (s *search) removeAs(ctx context.Context, remain []excess.Object) (_ []excess.Object, why, err error) {
	accounts, why, err := s.Default.Lookup(s.Live).Acting(ctx, s.hookBound)
	if err != nil {
		return remain, nil, err
	}
	for _, account := range accounts {
		own, err := s.Accounts.For(ctx, account)
		if scoped.ReasonOf(err) != "" {
			why = cmp.Or(why, err)
			continue
		}
		if err != nil {
			return remain, nil, err
		}
		if remain, why, err = excess.Delete(ctx, own, remain, s.removed(ctx)); err != nil || len(remain) == 0 {
			return remain, why, err
		}
	}
	own, why, err := s.Remover.Client(ctx, s.RBAC, why)
	if own == nil {
		return remain, cmp.Or(why, excess.ErrNoIdentity), err
	}
	return excess.Delete(ctx, own, remain, s.removed(ctx))
}

// removed returns a function that logs a removal. Events about the OperatorGroup report it.
func (s *search) removed(ctx context.Context) func(client.Object) {
	return func(obj client.Object) {
		log.FromContext(ctx).Info("Removed an object that exceeds the account", "object", apply.Describe(obj), "account", s.bound.String())
	}
}

// announce emits an Event if the report differs from the last one: about the OperatorGroup or, if the namespace has none, about
// each object, with a description of only the objects in the Event's namespace.
func (r *Reconciler) announce(namespace string, group *operatorsv1.OperatorGroup, is Excess) {
	before := r.told.Get(namespace)
	r.told.Set(namespace, is)
	if is.Reason == "" {
		r.told.Delete(namespace)
		return
	}
	if before.Reason == is.Reason && slices.Equal(excess.Names(before.objects), excess.Names(is.objects)) {
		return
	}
	if group != nil {
		r.Recorder.Eventf(group, nil, corev1.EventTypeWarning, names.ConditionExceedsAccount, "Shrink", "%s", status.Note(is.Message))
		return
	}
	for _, o := range is.objects[:min(len(is.objects), maxAnnounced)] {
		r.Recorder.Eventf(o.Object, nil, corev1.EventTypeWarning, eventLeftBehind, "Shrink", "%s", status.Note(is.left[o.Object.GetNamespace()]))
	}
}

// maxAnnounced is the maximum number of Events about objects in a namespace without an OperatorGroup.
const maxAnnounced = 10

// eventLeftBehind is the only reason with which the policy remit-self-events allows Events about roles and bindings.
const eventLeftBehind = "LeftBehind"
