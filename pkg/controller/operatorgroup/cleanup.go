package operatorgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// cleanUp removes, as an account, the ClusterRoles of a deleted OperatorGroup and the namespace labels of all OperatorGroups that do
// not exist. It acts as the account that the group had or, if that account no longer exists or this program was restarted, as the
// account of another group of the namespace or the default account. An OperatorGroup has no finalizer, so that it cannot block the
// deletion of its namespace. ClusterRoles that no account can remove remain until the namespace is deleted, and labels until
// another OperatorGroup has an account that can. after is the time until more can be removed.
func (r *Reconciler) cleanUp(ctx context.Context, key client.ObjectKey) (after time.Duration, err error) {
	was := r.known.Get(key)
	r.unsaved.Delete(key)
	r.own.Forget(key)
	roles, err := r.rolesOf(ctx, key)
	if err != nil {
		return 0, err
	}
	namespaces, err := r.orphaned(ctx)
	if err != nil {
		return 0, err
	}
	if len(roles)+len(namespaces) == 0 {
		r.known.Delete(key)
		return 0, nil
	}
	account, c, err := r.cleaner(ctx, key.Namespace, was)
	if scoped.ReasonOf(err) != "" {
		log.FromContext(ctx).Info("Keeping objects of a deleted OperatorGroup", "reason", err.Error(), "objects", len(roles)+len(namespaces))
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if err := r.removeRoles(ctx, account, c, roles); err != nil {
		return 0, err
	}
	after, err = r.sweep(ctx, account, func() (client.Client, error) { return c, nil })
	if len(roles) == 0 && after == 0 && err == nil {
		r.known.Delete(key)
	}
	return after, err
}

// rolesOf returns the ClusterRoles that were created for an OperatorGroup. The labels are used only to find the ClusterRoles; the
// proofs decide.
func (r *Reconciler) rolesOf(ctx context.Context, key client.ObjectKey) ([]*rbacv1.ClusterRole, error) {
	namespace := &corev1.Namespace{}
	if _, err := apply.Read(ctx, r.Client, client.ObjectKey{Name: key.Namespace}, namespace); err != nil {
		return nil, err
	}
	groupOwner := owner{key: key, since: namespace.CreationTimestamp.Time, proofs: r.Proofs}
	list := &rbacv1.ClusterRoleList{}
	if err := r.Client.List(ctx, list, ownerutil.Marked(groupOwner.mark()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterRoles: %w", err)
	}
	var out []*rbacv1.ClusterRole
	for i := range list.Items {
		if role := &list.Items[i]; role.DeletionTimestamp == nil && groupOwner.Check(role) == nil {
			out = append(out, role)
		}
	}
	return out, nil
}

func (r *Reconciler) removeRoles(ctx context.Context, account scoped.Account, c client.Client, roles []*rbacv1.ClusterRole) error {
	granted := r.RBAC.LowerBound(rbac.SubjectOf(account.Identity()), rbac.ClusterScope)
	var failed []error
	for _, role := range roles {
		needed := []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{role.Name}, Verbs: []string{"delete"}}}
		if !granted.Set().Covers(needed) {
			continue
		}
		if err := apply.Delete(ctx, c, role.DeepCopy()); err != nil {
			if !apierrors.IsForbidden(err) {
				failed = append(failed, err)
			}
			continue
		}
		log.FromContext(ctx).Info("Removed a ClusterRole of a deleted OperatorGroup", "ClusterRole", role.Name, "account", account.Key().String())
	}
	return errors.Join(failed...)
}

// cleaner returns the account that removes objects of a deleted OperatorGroup, and its client: the group's former account
// if that is still usable, or else the current account of the namespace or the default account.
func (r *Reconciler) cleaner(ctx context.Context, namespace string, was scoped.Account) (scoped.Account, client.Client, error) {
	sa := &corev1.ServiceAccount{}
	if was.Name != "" {
		found, err := apply.Read(ctx, r.Live, was.Key(), sa)
		if err != nil {
			return was, nil, err
		}
		if found && sa.UID == was.UID {
			if c, err := r.Accounts.For(ctx, was); err == nil {
				return was, c, nil
			}
		}
	}
	account, _, err := r.Default.Lookup(r.Live).Account(ctx, namespace)
	if scoped.ReasonOf(err) != "" {
		none := &operatorsv1.OperatorGroup{}
		none.Namespace = namespace
		account, err = r.Default.Lookup(r.Live).AccountOf(ctx, none)
	}
	if err != nil {
		return account, nil, err
	}
	c, err := r.Accounts.For(ctx, account)
	return account, c, err
}

// owning returns a request for the OperatorGroup that a ClusterRole was created for, so that the ClusterRoles of a group
// that was deleted while this program did not run are removed.
func (r *Reconciler) owning(_ context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	key := client.ObjectKey{Namespace: labels[names.LabelOwnerNamespace], Name: labels[names.LabelOwner]}
	if labels[names.LabelOwnerKind] != operatorsv1.OperatorGroupKind || (owner{key: key, proofs: r.Proofs}).Check(obj) != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}
