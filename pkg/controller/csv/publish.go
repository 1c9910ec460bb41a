package csv

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// publish writes, as the account, the ClusterRoles of the APIs that the operator provides, which Kubernetes aggregates
// to its default roles. Nothing depends on these roles. If the account is missing the permissions of a role, the role is
// not written, and the OperatorGroup's status reports this. Because lookups are tracked, changes to the permissions or
// the roles wake the CSV.
func (r *Reconciler) publish(ctx context.Context, s *scope) error {
	account, barred := s.writer(warrant.Publish)
	if barred != nil || s.csv.Status.Phase != phaseSucceeded {
		return nil
	}
	due, err := r.rolesToPublish(ctx, s)
	if err != nil || len(due) == 0 {
		return err
	}
	if !controllerutil.ContainsFinalizer(s.csv, names.FinalizerCSV) { // the finalizer removes the roles
		return r.addFinalizer(ctx, s, account)
	}
	for _, obj := range due {
		changed, err := s.turn.do(taskPublish, obj, func() (bool, error) {
			result, _, err := apply.Ensure(ctx, account, obj, s.owner)
			return result != apply.Unchanged, err
		})
		switch {
		case errors.Is(err, errTurn):
			s.interrupt(taskPublish, len(due))
			return nil
		case err == nil:
			s.published(obj)
			log.FromContext(ctx).Info("Published ClusterRole", "object", apply.Describe(obj), "changed", changed, "account", s.account.Key().String())
		case refusal(err):
			log.FromContext(ctx).Info("Cannot publish ClusterRole", "object", apply.Describe(obj), "reason", err.Error())
		case !apierrors.IsConflict(err):
			return err
		}
	}
	return nil
}

// rolesToPublish returns the ClusterRoles that are not in place and that the account may write.
func (r *Reconciler) rolesToPublish(ctx context.Context, s *scope) ([]*unstructured.Unstructured, error) {
	granted := r.RBAC.LowerBound(rbac.SubjectOf(s.account.Identity()), rbac.ClusterScope)
	var due []*unstructured.Unstructured
	for _, api := range provided.Of(s.csv) {
		ok, err := provided.Installed(ctx, r.Client, api, s.owner.Owns)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for _, role := range provided.RolesOf(api) {
			obj, err := r.roleToPublish(ctx, s, role, granted)
			if err != nil {
				return nil, err
			}
			if obj != nil {
				due = append(due, obj)
			}
		}
	}
	return due, nil
}

// roleToPublish returns the ClusterRole with its owner, or nil if it is in place or cannot be written. It leaves a
// ClusterRole of another owner unchanged. Usually, such a role exists because the same operator is installed in another
// namespace.
func (r *Reconciler) roleToPublish(ctx context.Context, s *scope, role *rbacv1.ClusterRole, granted rbac.Permissions) (*unstructured.Unstructured, error) {
	live, err := r.RBAC.ClusterRoles.Get(role.Name)
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return nil, fmt.Errorf("get ClusterRole %s: %w", role.Name, err)
	case !s.owner.Owns(live):
		return nil, nil
	}
	if len(provided.Missing(role, live, granted)) > 0 {
		return nil, nil
	}
	obj, err := s.publishable(role)
	if err != nil {
		return nil, err
	}
	if have, err := r.inPlace(ctx, s, obj); have != nil || err != nil {
		return nil, err
	}
	return obj, nil
}

// publishable adds the owner to a ClusterRole.
func (s *scope) publishable(role *rbacv1.ClusterRole) (*unstructured.Unstructured, error) {
	for key, value := range s.owner.Labels() {
		role.Labels[key] = value
	}
	role.OwnerReferences = s.owner.Outside(s.namespace.UID)
	return apply.Object(role)
}

// addFinalizer sets the finalizer as the account. The event triggers another reconcile.
func (r *Reconciler) addFinalizer(ctx context.Context, s *scope, account client.Client) error {
	before, after := metadataOf(s.csv)
	controllerutil.AddFinalizer(after, names.FinalizerCSV)
	err := account.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	switch {
	case apierrors.IsConflict(err):
		return nil
	case err != nil && refusal(err):
		log.FromContext(ctx).Info("Cannot publish ClusterRoles", "reason", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("set the finalizer of ClusterServiceVersion %s/%s: %w", s.csv.Namespace, s.csv.Name, err)
	}
	s.facts.Unsynced = true
	return nil
}

// published records that a ClusterRole was just written for this version. This prevents the role from being removed while the
// cache still shows it as a role of an earlier version.
func (s *scope) published(obj *unstructured.Unstructured) {
	if s.justPublished == nil {
		s.justPublished = map[string]bool{}
	}
	s.justPublished[obj.GetName()] = true
}
