package csv

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// fieldManager is the field manager of the annotations and the finalizer that this controller sets on a CSV.
const fieldManager = names.FieldManager + "-operatorgroup"

// prepare writes, as the account, what an operator needs in addition to its Deployments: the OperatorGroup's
// annotations on the CSV, and the ServiceAccounts and roles for the current targets. If the cache shows all of these in
// the desired state, it neither writes nor reads anything live. It records a refusal in the facts instead of returning
// an error. The ServiceAccounts and roles of a CSV that is only checked are left to its users.
func (r *Reconciler) prepare(ctx context.Context, s *scope) error {
	if !s.acting.Known() || s.facts.unfit() != nil {
		return nil
	}
	rendered, err := r.operatorRBAC(s)
	if err != nil {
		return err
	}
	want := slices.Clone(rendered)
	if s.uncalled == nil {
		access, err := s.hooks.Access()
		if err != nil {
			return err
		}
		want = append(want, access...)
	}
	if err := r.gatherCoverage(ctx, s, want); err != nil {
		return err
	}
	due, err := r.due(ctx, s, want)
	if err != nil {
		return err
	}
	due = s.withoutChecked(due, rendered)
	access, err := s.conditionAccess()
	if err != nil {
		return err
	}
	want = append(want, access...)
	account, barred := s.writer(warrant.Prepare)
	if barred != nil {
		return nil // the API server would refuse these roles
	}
	due = r.writable(ctx, s, due)
	err = r.checkWrites(ctx, s, account, s.withoutChecked(slices.Clone(want), rendered), due)
	if err == nil {
		err = r.write(ctx, s, account, want, due)
	}
	if err == nil {
		err = r.grantCondition(ctx, s, account, want, access)
	}
	if errors.Is(err, errTurn) {
		s.prepareLater(len(due))
		return nil
	}
	s.noteOccupied()
	return s.notPrepared(err)
}

// due is notInPlace for what an operator needs. A Role whose bindings were not confirmed first loses its rules.
func (r *Reconciler) due(ctx context.Context, s *scope, want []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	due, err := r.notInPlace(ctx, s, want)
	if err != nil {
		return nil, err
	}
	return due, r.withdraw(ctx, s, due)
}

// prepareLater requests the reconcile that writes the next objects, and leaves everything that depends on them to it. n is the number of
// objects with which this reconcile began.
func (s *scope) prepareLater(n int) {
	if !s.turn.unfinished {
		s.interrupt(taskWrite, n)
	}
	s.facts.Unwritten, s.facts.Unsynced = true, true
	s.evaluated = false
}

// notPrepared records a refusal in the facts, and returns other errors.
func (s *scope) notPrepared(err error) error {
	if err == nil || !isReported(err) {
		return err
	}
	s.facts.Prepared = err
	s.facts.Notes = append(s.facts.Notes, summary(err))
	return nil
}

// writable returns the due objects without those of targets in which the account may not write them. This applies only to an installed
// operator, which gets no permissions there, so that the users of one target do not affect the others (docs/adr/0093).
func (r *Reconciler) writable(ctx context.Context, s *scope, due []*unstructured.Unstructured) []*unstructured.Unstructured {
	due = slices.DeleteFunc(due, func(obj *unstructured.Unstructured) bool { return s.withheld[obj.GetNamespace()] })
	isForTarget := func(obj *unstructured.Unstructured) bool { return execute.IsForTarget(obj, s.owner) }
	if !slices.ContainsFunc(due, isForTarget) || !r.hasBegun(ctx, s) {
		return due
	}
	elsewhere := slices.DeleteFunc(slices.Clone(due), func(obj *unstructured.Unstructured) bool { return !isForTarget(obj) })
	// One check for all targets: the questions of one check, and what is remembered of it, have a limit.
	scopes := r.confirm(ctx, s, forTargets, needsOf(elsewhere, apply.Verbs()...)).Scopes()
	for _, missing := range scopes {
		lines := rbac.Lines(missing.Namespace, missing.Rules, maxLines/2)
		s.occupy(missing.Namespace, &MissingPermissionsError{Account: s.account, Missing: slices.Clone(lines[:min(len(lines), max(1, maxMissing/len(scopes)))])})
	}
	return slices.DeleteFunc(due, func(obj *unstructured.Unstructured) bool {
		return execute.IsForTarget(obj, s.owner) && s.occupied[obj.GetNamespace()] != nil
	})
}

// checkWrites returns why the due objects may not be written. planned are all objects that prepare may write.
func (r *Reconciler) checkWrites(ctx context.Context, s *scope, account client.Client, planned, due []*unstructured.Unstructured) error {
	if err := r.missingPermissions(ctx, s, forPreparing, due); err != nil {
		return err
	}
	return r.collisions(ctx, s, account, planned)
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

// notInPlace returns the objects that are not in the desired state according to the cache.
func (r *Reconciler) notInPlace(ctx context.Context, s *scope, want []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var due []*unstructured.Unstructured
	for _, obj := range want {
		live, err := r.inPlace(ctx, s, obj)
		if err != nil {
			return nil, err
		}
		if live == nil {
			_ = r.follow(obj) // the result is not needed; the lookup only tracks the object
			due = append(due, obj)
			continue
		}
		s.recordMade(obj, live)
	}
	return due, nil
}

// follow tracks a role or binding, so that its next change or deletion wakes the CSV. The object may belong to another
// owner. follow returns a NotFound error if the object does not exist.
func (r *Reconciler) follow(obj *unstructured.Unstructured) error {
	_, err := r.RBAC.Object(obj.GetKind(), obj.GetNamespace(), obj.GetName())
	return err
}

// recordMade records the creation time of a ServiceAccount that this install owns. It ignores objects of other kinds,
// and shared ServiceAccounts that another install created: their permissions are checked like those of any other
// ServiceAccount. The kind has to be set in obj, but not in live.
func (s *scope) recordMade(obj *unstructured.Unstructured, live client.Object) {
	if obj.GetKind() != "ServiceAccount" || s.owner.Shares(live) {
		return
	}
	if s.made == nil {
		s.made = map[string]time.Time{}
	}
	s.made[obj.GetName()] = live.GetCreationTimestamp().Time
}

// write annotates the CSV, applies the due objects in order, and then deletes the roles of namespaces that are no
// longer targets.
func (r *Reconciler) write(ctx context.Context, s *scope, account client.Client, want, due []*unstructured.Unstructured) error {
	// The finalizer is set before the objects that require it are created.
	if done, err := r.annotate(ctx, s, account); !done {
		return err
	}
	bindings, rest := r.restorable(due)
	if changed, err := r.ensure(ctx, s, account, want, bindings); err != nil || changed {
		return err // the event for the binding triggers the reconcile that writes the role
	}
	rest = slices.DeleteFunc(rest, func(obj *unstructured.Unstructured) bool {
		return execute.IsForTarget(obj, s.owner) && s.restored[obj.GetNamespace()]
	})
	if _, err := r.ensure(ctx, s, account, want, rest); err != nil {
		return err
	}
	return r.prune(ctx, s, account, want)
}

// restorable separates existing bindings to existing roles from the other due objects. The bindings are restored before
// their roles, so that a subject that was added to a binding does not get the permissions that its role grants.
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

// ensure applies objects in order, and reports whether any of them changed, except for other target namespaces, which it records. It returns
// errTurn if the turn ends before all of them have been tried. It omits the remaining objects of a target namespace in which a user occupies
// one of them, so that a user of one target does not affect the others (docs/adr/0087).
func (r *Reconciler) ensure(ctx context.Context, s *scope, account client.Client, want, objs []*unstructured.Unstructured) (changed bool, err error) {
	roles := execute.Roles{RBAC: r.RBAC, Owner: s.owner, Rendered: want, Live: r.Live, Checked: &execute.Checked{}}
	for _, obj := range roles.CrowdedLast(objs) {
		isForTarget := execute.IsForTarget(obj, s.owner)
		if isForTarget && s.occupied[obj.GetNamespace()] != nil {
			continue
		}
		one, err := r.ensureInTurn(ctx, s, account, roles, obj)
		lags := s.turn.hasChanged(taskWrite, obj)
		switch {
		case isForTarget && execute.Occupies(err):
			s.occupy(obj.GetNamespace(), err)
		case err != nil:
			return changed, err
		case isForTarget:
			s.restore(obj.GetNamespace(), one || lags)
		default:
			changed = changed || one
			s.facts.Unsynced = s.facts.Unsynced || changed || lags
		}
	}
	return changed, nil
}

// ensureInTurn is ensureOne unless an earlier turn has applied the object, and reports whether it changed.
func (r *Reconciler) ensureInTurn(ctx context.Context, s *scope, account client.Client, roles execute.Roles, obj *unstructured.Unstructured) (changed bool, err error) {
	var live *unstructured.Unstructured
	changed, err = s.turn.do(taskWrite, obj, func() (bool, error) {
		result, made, err := r.ensureOne(ctx, s, account, roles, obj)
		if execute.IsForTarget(obj, s.owner) {
			err = cmp.Or(preflight.AtAdmission(err), execute.Disturbed(err), err) // the permissions have been checked
		}
		live = made
		return result != apply.Unchanged, err
	})
	if err == nil && live != nil {
		s.recordMade(obj, live)
	}
	return changed, err
}

// restore records that the cache does not show yet what was written in a target namespace. Everything else goes on: the namespace's users
// may delete the operator's roles as often as they are written.
func (s *scope) restore(namespace string, isChanged bool) {
	if !isChanged {
		return
	}
	if s.restored == nil {
		s.restored = map[string]bool{}
	}
	s.restored[namespace] = true
}

// ensureOne applies one object. It only adds an owner reference to a ServiceAccount that another install in the namespace
// created.
func (r *Reconciler) ensureOne(ctx context.Context, s *scope, account client.Client, roles execute.Roles, obj *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	if obj.GetKind() == "ServiceAccount" {
		live, err := apply.Live(ctx, account, obj)
		if err != nil {
			return "", nil, err
		}
		if live != nil && s.owner.Shares(live) {
			return apply.Share(ctx, account, live, obj)
		}
		return apply.From(ctx, account, live, obj, s.owner)
	}
	return roles.EnsureUncached(ctx, account, obj)
}

// inPlace returns the cached object, or nil if that object does not exist or is not in the desired state. If the cache
// is outdated, the only consequence is one unneeded live read, or a result that the next event corrects.
func (r *Reconciler) inPlace(ctx context.Context, s *scope, want *unstructured.Unstructured) (client.Object, error) {
	typed, err := r.Client.Scheme().New(want.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("determine the kind of %s: %w", apply.Describe(want), err)
	}
	live, ok := typed.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an API object", apply.Describe(want))
	}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if want.GetKind() == "ServiceAccount" {
		if !apply.HasOwners(live, want) {
			return nil, nil
		}
		if s.owner.Shares(live) && live.GetDeletionTimestamp() == nil {
			return live, nil
		}
		live.SetOwnerReferences(want.GetOwnerReferences()) // other installs may share the ServiceAccount
	}
	if execute.IsUnconfirmed(live, want.GetKind()) {
		s.noteUnconfirmed(want)
		return nil, nil
	}
	if !deployment.InPlace(live, want, s.owner) {
		return nil, nil
	}
	return live, nil
}

func (s *scope) noteUnconfirmed(role *unstructured.Unstructured) {
	if s.unconfirmed == nil {
		s.unconfirmed = map[string]bool{}
	}
	s.unconfirmed[apply.Describe(role)] = true
}

// annotate sets the OperatorGroup's annotations, which only Remit may set, on the CSV. It also sets
// the finalizer if the CSV will own objects outside its namespace, and the lineage that the CSV inherits from the version that it
// replaces. CSVs that an InstallPlan creates already have both. done is false if the patch failed or the cache is outdated.
func (r *Reconciler) annotate(ctx context.Context, s *scope, account client.Client) (done bool, err error) {
	before, after := metadataOf(s.csv)
	maps.Copy(after.Annotations, deployment.GroupAnnotations(s.group.Name, s.csv.Namespace, s.targets))
	if build.Outside(s.csv, s.csv.Namespace, s.targets) {
		controllerutil.AddFinalizer(after, names.FinalizerCSV)
	}
	if err := r.settleLineage(s, after); err != nil {
		return false, err
	}
	if maps.Equal(after.Annotations, s.csv.Annotations) && slices.Equal(after.Finalizers, s.csv.Finalizers) {
		return true, nil
	}
	s.facts.Unsynced = true
	err = account.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	switch {
	case apierrors.IsConflict(err):
		return false, nil // the event for the newer version triggers another reconcile
	case err != nil:
		return false, fmt.Errorf("annotate ClusterServiceVersion %s/%s: %w", s.csv.Namespace, s.csv.Name, err)
	}
	return true, nil
}
