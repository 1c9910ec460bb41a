package csv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// fieldManager owns only the annotations and the finalizer that this controller puts on a CSV.
const fieldManager = names.FieldManager + "-operatorgroup"

// prepare makes, as-account, what an operator needs besides its Deployments: the annotations of its
// OperatorGroup, and its ServiceAccounts and roles for the targets as they are now. Nothing is
// written, and nothing read live, where the cache shows all of it in place. A refusal is a fact, not
// an error.
func (r *Reconciler) prepare(ctx context.Context, s *scope) error {
	if !s.acting.Known() || s.facts.unfit() != nil {
		return nil
	}
	want, err := r.operatorRBAC(s)
	if err != nil {
		return err
	}
	if s.uncalled == nil {
		access, err := s.hooks.Access()
		if err != nil {
			return err
		}
		want = append(want, access...)
	}
	if err := s.gatherCoverage(r.rbac, want); err != nil {
		return err
	}
	due, err := r.notInPlace(ctx, s, want)
	if err != nil {
		return err
	}
	account, barred := s.writer(warrant.Prepare)
	if barred != nil {
		return nil // the API server would refuse these roles
	}
	err = r.write(ctx, s, account, want, due)
	if err != nil && refusal(err) || asLacks(err) {
		s.facts.Prepared = err
		s.facts.Notes = append(s.facts.Notes, oneLine(err))
		return nil
	}
	return err
}

func (r *Reconciler) operatorRBAC(s *scope) ([]*unstructured.Unstructured, error) {
	want, err := build.OperatorRBAC(s.csv, s.owner, s.targets)
	for _, obj := range want {
		if obj.GetNamespace() == s.csv.Namespace {
			obj.SetOwnerReferences([]metav1.OwnerReference{s.owner.Reference()})
		}
	}
	return want, err
}

// notInPlace are those objects that the cache does not show as they should be.
func (r *Reconciler) notInPlace(ctx context.Context, s *scope, want []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var due []*unstructured.Unstructured
	for _, obj := range want {
		live, err := r.inPlace(ctx, s, obj)
		if err != nil {
			return nil, err
		}
		if live == nil {
			_ = r.follow(obj) // all that matters is that it asks
			due = append(due, obj)
			continue
		}
		s.hasMade(obj, live)
	}
	return due, nil
}

// follow has the next change of a role or a binding wake the CSV, or its removal: it may be somebody else's, and in the way.
// The error is NotFound where there is none.
func (r *Reconciler) follow(obj *unstructured.Unstructured) (err error) {
	switch obj.GetKind() {
	case "Role":
		_, err = r.rbac.Roles.Roles(obj.GetNamespace()).Get(obj.GetName())
	case "RoleBinding":
		_, err = r.rbac.RoleBindings.RoleBindings(obj.GetNamespace()).Get(obj.GetName())
	case "ClusterRole":
		_, err = r.rbac.ClusterRoles.Get(obj.GetName())
	case "ClusterRoleBinding":
		_, err = r.rbac.ClusterRoleBindings.Get(obj.GetName())
	}
	return err
}

// hasMade notes that an object is there and this install's own. live need not tell its kind.
func (s *scope) hasMade(obj *unstructured.Unstructured, live metav1.Object) {
	if obj.GetKind() != "ServiceAccount" {
		return
	}
	if s.made == nil {
		s.made = map[string]time.Time{}
	}
	s.made[obj.GetName()] = live.GetCreationTimestamp().Time
}

// write annotates the CSV, applies, in order, what is due, and then removes the roles of namespaces that are no longer
// targets.
func (r *Reconciler) write(ctx context.Context, s *scope, account client.Client, want, due []*unstructured.Unstructured) error {
	if err := r.lacks(ctx, s, forPreparing, due); err != nil {
		return err
	}
	// The finalizer comes before what it is for.
	if done, err := r.annotate(ctx, s, account); !done {
		return err
	}
	bindings, rest := r.restorable(due)
	if changed, err := r.ensure(ctx, s, account, want, bindings); err != nil || changed {
		return err // the event of the binding brings the CSV back for its role
	}
	if _, err := r.ensure(ctx, s, account, want, rest); err != nil {
		return err
	}
	return r.prune(ctx, s, account, want)
}

// restorable takes the bindings that exist, and whose roles do, from what is due: they are made as they should be before their
// roles are, so that nobody else has what the roles then grant.
func (r *Reconciler) restorable(due []*unstructured.Unstructured) (bindings, rest []*unstructured.Unstructured) {
	roles := map[string]bool{}
	for _, obj := range due {
		roles[apply.Describe(obj)] = execute.IsRole(obj) && r.follow(obj) == nil
	}
	for _, obj := range due {
		if execute.IsBinding(obj) && roles[execute.RoleOf(obj)] && r.follow(obj) == nil {
			bindings = append(bindings, obj)
			continue
		}
		rest = append(rest, obj)
	}
	return bindings, rest
}

// ensure applies objects in order, and says whether that changed any.
func (r *Reconciler) ensure(ctx context.Context, s *scope, account client.Client, want, objs []*unstructured.Unstructured) (changed bool, err error) {
	roles := execute.Roles{RBAC: r.rbac, Owner: s.owner, Rendered: want, Live: r.lookup.Reader}
	for _, obj := range objs {
		result, live, err := roles.Ensure(ctx, account, obj)
		if err != nil {
			return changed, err
		}
		s.hasMade(obj, live)
		changed = changed || result != apply.Unchanged
		s.facts.Unsynced = s.facts.Unsynced || changed
	}
	return changed, nil
}

// inPlace returns the object as the cache has it; nil where it is not as it should be. A stale cache costs one live read,
// or is corrected by its next event.
func (r *Reconciler) inPlace(ctx context.Context, s *scope, want *unstructured.Unstructured) (client.Object, error) {
	typed, err := r.client.Scheme().New(want.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("kind of %s: %w", apply.Describe(want), err)
	}
	live, ok := typed.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object of the API", apply.Describe(want))
	}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !deployment.InPlace(live, want, s.owner) {
		return nil, nil
	}
	return live, nil
}

// annotate puts the OperatorGroup's annotations on the CSV, which are Remit's alone to set, and the finalizer
// where something outside its namespace is to belong to it. What a plan has made has both from the start.
func (r *Reconciler) annotate(ctx context.Context, s *scope, account client.Client) (done bool, err error) {
	after := s.csv.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	maps.Copy(after.Annotations, deployment.GroupAnnotations(s.group.Name, s.csv.Namespace, s.targets))
	if build.Outside(s.csv, s.csv.Namespace, s.targets) {
		controllerutil.AddFinalizer(after, names.FinalizerCSV)
	}
	if maps.Equal(after.Annotations, s.csv.Annotations) && slices.Equal(after.Finalizers, s.csv.Finalizers) {
		return true, nil
	}
	s.facts.Unsynced = true
	err = account.Patch(ctx, after, client.MergeFromWithOptions(s.csv, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	switch {
	case apierrors.IsConflict(err):
		return false, nil // the event of the newer one brings it back
	case err != nil:
		return false, fmt.Errorf("annotate ClusterServiceVersion %s/%s: %w", s.csv.Namespace, s.csv.Name, err)
	}
	return true, nil
}
