package operatorgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// annotationAPIs is the annotation that lists the APIs that the group's operators provide.
const annotationAPIs = operatorsv1.OperatorGroupProvidedAPIsAnnotationKey

// fieldManager is the field manager of the annotation and the labels.
const fieldManager = names.FieldManager + "-operatorgroup"

// task is a write as the account that nothing else depends on.
type task struct {
	// object describes what is written.
	object string
	// missing lists the permissions that the account is missing, as lines. If there are any, the task is reported
	// instead of executed.
	missing []string
	// refused is the reason why Remit does not execute the task, or "".
	refused string
	// do writes, or is nil if nothing has to be written.
	do func(ctx context.Context, account client.Client) error
}

// Outcome describes which tasks were not executed, with the reasons.
type Outcome struct {
	Missing, Refused []string
	// ByAPIServer is true if the API server has refused one of the Refused; otherwise, Remit does not write them.
	ByAPIServer bool
}

// publishes reports whether the group's annotation, ClusterRoles and labels are maintained.
func (f *Facts) publishes() bool {
	return f.Problem == nil && f.TooMuch == nil && f.TooMany == nil && f.InvalidSelector == nil && f.Undecided == nil && f.Siblings == 0 && len(f.NotEnrolled) == 0
}

// publish writes, as the account, the annotation with the provided APIs, the ClusterRoles of the group and the labels of
// its target namespaces. It sends nothing that RBAC does not allow, and records in the facts what is missing. annotated is
// true if the annotation was written, so that the cached group is outdated.
func (r *Reconciler) publish(ctx context.Context, f *Facts) (annotated bool, err error) {
	namespace := &corev1.Namespace{}
	if found, err := apply.Read(ctx, r.Client, client.ObjectKey{Name: f.Group.Namespace}, namespace); !found || err != nil || namespace.DeletionTimestamp != nil {
		return false, err
	}
	apis, err := r.providedAPIs(ctx, f.Group.Namespace)
	if err != nil {
		return false, err
	}
	run := &executor{open: func() (client.Client, error) { return r.accountClient(ctx, f) }}
	installed, err := r.installed(ctx, apis, namespace)
	if err != nil {
		return false, err
	}
	roles, err := r.roleTasks(f, installed, namespace)
	if err != nil {
		return false, err
	}
	if f.Published, err = run.all(ctx, roles); err != nil {
		return false, err
	}
	labels, err := r.labelTasks(ctx, f)
	if err != nil {
		return false, err
	}
	if f.Labeled, err = run.all(ctx, labels); err != nil {
		return false, err
	}
	annotation := r.annotationTask(f, apis)
	outcome, err := run.all(ctx, []task{annotation})
	f.Published.Missing = append(outcome.Missing, f.Published.Missing...)
	f.Published.Refused = append(outcome.Refused, f.Published.Refused...)
	f.Published.ByAPIServer = f.Published.ByAPIServer || outcome.ByAPIServer
	return annotation.do != nil && len(outcome.Missing)+len(outcome.Refused) == 0, err
}

// providedAPIs returns the APIs of the namespace's ClusterServiceVersions, except copies and those that the group rejects.
func (r *Reconciler) providedAPIs(ctx context.Context, namespace string) ([]provided.API, error) {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterServiceVersions in namespace %q: %w", namespace, err)
	}
	return provided.Union(slices.DeleteFunc(list.Items, func(csv operatorsv1alpha1.ClusterServiceVersion) bool { return !provides(&csv) })), nil
}

// provides reports whether the annotation lists the APIs of a ClusterServiceVersion.
func provides(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	_, copied := csv.Labels[names.LabelCopiedFrom]
	rejected := csv.Status.Reason == operatorsv1alpha1.CSVReasonInterOperatorGroupOwnerConflict ||
		csv.Status.Reason == operatorsv1alpha1.CSVReasonCannotModifyStaticOperatorGroupProvidedAPIs
	return !copied && !rejected && csv.DeletionTimestamp == nil
}

func (r *Reconciler) annotationTask(f *Facts, apis []provided.API) task {
	out := task{object: "annotation " + annotationAPIs}
	have, want := f.Group.Annotations[annotationAPIs], provided.Annotation(apis)
	if f.Group.Spec.StaticProvidedAPIs || have == want {
		return out
	}
	granted := r.RBAC.LowerBound(rbac.SubjectOf(f.Account.Identity()), f.Group.Namespace)
	out.missing = lines(granted.Set().Missing([]rbacv1.PolicyRule{{
		APIGroups: []string{operatorsv1.GroupVersion.Group}, Resources: []string{"operatorgroups"}, ResourceNames: []string{f.Group.Name}, Verbs: []string{"patch"},
	}}))
	out.do = func(ctx context.Context, account client.Client) error {
		after := f.Group.DeepCopy()
		after.Annotations = maps.Clone(after.Annotations)
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[annotationAPIs] = want
		return account.Patch(ctx, after, client.MergeFromWithOptions(f.Group, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	}
	return out
}

// roleTasks returns the tasks for the ClusterRoles of the group. For ClusterRoles of APIs, which the csv controller
// writes, it only determines whether the account is missing permissions.
func (r *Reconciler) roleTasks(f *Facts, apis []provided.API, namespace *corev1.Namespace) ([]task, error) {
	granted := r.RBAC.LowerBound(rbac.SubjectOf(f.Account.Identity()), rbac.ClusterScope)
	if err := errors.Join(granted.ReadErrors...); err != nil {
		return nil, fmt.Errorf("determine the effective rules of %s: %w", f.Account.Key(), err)
	}
	groupOwner := owner{key: client.ObjectKeyFromObject(f.Group), since: namespace.CreationTimestamp.Time, proofs: r.Proofs}
	var out []task
	for _, role := range provided.GroupRoles(f.Group, apis) {
		live, err := r.clusterRole(role.Name)
		if err != nil {
			return nil, err
		}
		want, err := groupOwner.own(role, namespace)
		if err != nil {
			return nil, err
		}
		if live != nil && isInPlace(live, role, groupOwner) {
			continue
		}
		out = append(out, task{
			object: "ClusterRole " + role.Name, missing: lines(provided.Missing(role, live, granted)),
			do: func(ctx context.Context, account client.Client) error {
				_, _, err := apply.Ensure(ctx, account, want, groupOwner)
				return err
			},
		})
	}
	for _, api := range apis {
		for _, role := range provided.RolesOf(api) {
			live, err := r.clusterRole(role.Name)
			if err != nil {
				return nil, err
			}
			if missing := provided.Missing(role, nil, granted); live == nil && len(missing) > 0 {
				out = append(out, task{object: "ClusterRole " + role.Name, missing: lines(missing)})
			}
		}
	}
	return out, nil
}

// clusterRole returns a cached ClusterRole, or nil if it does not exist.
func (r *Reconciler) clusterRole(name string) (*rbacv1.ClusterRole, error) {
	role, err := r.RBAC.ClusterRoles.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get ClusterRole %s: %w", name, err)
	}
	return role, nil
}

// isInPlace reports whether a ClusterRole of the group is in the desired state. Its rules are those that it aggregates.
func isInPlace(live, want *rbacv1.ClusterRole, groupOwner owner) bool {
	if groupOwner.Check(live) != nil {
		return false
	}
	var has, wants []rbacv1.AggregationRule
	if live.AggregationRule != nil {
		has = append(has, *live.AggregationRule)
	}
	if want.AggregationRule != nil {
		wants = append(wants, *want.AggregationRule)
	}
	return fmt.Sprint(has) == fmt.Sprint(wants)
}

// lines describes rules.
func lines(rules []rbacv1.PolicyRule) []string {
	out := make([]string, 0, len(rules))
	for _, rule := range rules {
		out = append(out, rbac.Line(rule))
	}
	return out
}

// accountClient verifies the cached account and OperatorGroup against the API server, and returns a client that acts as the account. The
// error is a conflict if the OperatorGroup was replaced or changed: another reconcile follows.
func (r *Reconciler) accountClient(ctx context.Context, f *Facts) (client.Client, error) {
	account, group, err := r.Default.Lookup(r.Live).Account(ctx, f.Group.Namespace)
	if err := cmp.Or(scoped.CheckNotLeft(group), err); err != nil {
		return nil, err
	}
	if account != f.Account {
		return nil, &scoped.Error{Reason: scoped.AccountChanged, Namespace: f.Group.Namespace, Message: "the account has changed"}
	}
	if !isSame(group, f.Group) {
		return nil, outdated(f.Group)
	}
	return r.Accounts.For(ctx, account)
}

// checkCurrent returns an error if the OperatorGroup was deleted, replaced or changed since it was read: the writes of one reconcile
// can take minutes. It reads the cache, because accountClient has asked the API server before the first write.
func (r *Reconciler) checkCurrent(ctx context.Context, group *operatorsv1.OperatorGroup) error {
	current := &operatorsv1.OperatorGroup{}
	exists, err := apply.Read(ctx, r.Client, client.ObjectKeyFromObject(group), current)
	if err != nil {
		return err
	}
	if !exists || !isSame(current, group) {
		return outdated(group)
	}
	return scoped.CheckNotLeft(current)
}

// isSame reports whether a read of an OperatorGroup returned the same one, not one that has replaced it, with the same spec.
func isSame(a, b *operatorsv1.OperatorGroup) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp == nil
}

func outdated(group *operatorsv1.OperatorGroup) error {
	return apierrors.NewConflict(operatorsv1.Resource("operatorgroups"), group.Name, errors.New("it was deleted, replaced or changed"))
}

// executor executes tasks. It opens the account's client before the first write.
type executor struct {
	open    func() (client.Client, error)
	account client.Client
}

// all executes the tasks. A refusal by the API server does not prevent other tasks; it is reported, and a change to RBAC
// causes another attempt.
func (e *executor) all(ctx context.Context, tasks []task) (Outcome, error) {
	var out Outcome
	for _, t := range tasks {
		switch {
		case len(t.missing) > 0:
			out.Missing = append(out.Missing, t.object+": "+strings.Join(t.missing, ", "))
			continue
		case t.refused != "":
			out.Refused = append(out.Refused, t.object+": "+t.refused)
			continue
		case t.do == nil:
			continue
		}
		err := e.one(ctx, t)
		switch {
		case err == nil:
			log.FromContext(ctx).Info("Wrote as the account", "object", t.object)
		case scoped.ReasonOf(err) != "", apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err), apply.IsCollision(err):
			out.Refused = append(out.Refused, t.object+": "+err.Error())
			out.ByAPIServer = out.ByAPIServer || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
		default:
			return out, fmt.Errorf("write %s: %w", t.object, err)
		}
	}
	return out, nil
}

func (e *executor) one(ctx context.Context, t task) error {
	if e.account == nil {
		account, err := e.open()
		if err != nil {
			return err
		}
		e.account = account
	}
	return t.do(ctx, e.account)
}
