package status

import (
	"context"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// world contains the objects that were read. If the user is not allowed to read a list, the list is empty and a note
// reports it.
type world struct {
	groups        []operatorsv1.OperatorGroup
	subscriptions []operatorsv1alpha1.Subscription
	plans         []operatorsv1alpha1.InstallPlan
	// csvs are those that Remit did not copy from another namespace; copies is the number of copies in each namespace.
	csvs   []operatorsv1alpha1.ClusterServiceVersion
	copies map[string]int
	// complete is set if subscriptions, plans and csvs were all read. The needs of the installs cannot be determined
	// without them.
	complete bool
	// extensions are all ClusterExtensions of the cluster; hasExtensions is set if they were read.
	extensions    []olmv1.ClusterExtension
	hasExtensions bool
	// requested is the namespace to report on; "" means all.
	requested string
	// accounts records for each account that a group names whether it exists.
	accounts map[types.NamespacedName]Answer
	// rbac is nil if RBAC could not be read; partial is set if RBAC could be read only in some namespaces.
	rbac *rbac.Listers
	// hooks are the webhook configurations that have a lineage label.
	hooks   []client.Object
	partial bool
	notes   []string
}

// gather reads a namespace, or all namespaces. OperatorGroups must be readable; anything else that cannot be read is noted.
func gather(ctx context.Context, c client.Client, namespace string) (*world, error) {
	w := &world{complete: true, requested: namespace, accounts: map[types.NamespacedName]Answer{}}
	var groups operatorsv1.OperatorGroupList
	if err := c.List(ctx, &groups, client.InNamespace(namespace)); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("Remit is not installed on this cluster: %w", err)
		}
		return nil, fmt.Errorf("list OperatorGroups: %w", err)
	}
	w.groups = groups.Items
	var subscriptions operatorsv1alpha1.SubscriptionList
	var plans operatorsv1alpha1.InstallPlanList
	var csvs operatorsv1alpha1.ClusterServiceVersionList
	for _, list := range []client.ObjectList{&subscriptions, &plans, &csvs} {
		if err := w.list(ctx, c, list, namespace); err != nil {
			return nil, err
		}
	}
	w.subscriptions, w.plans = subscriptions.Items, plans.Items
	w.setCSVs(csvs.Items)
	if err := w.gatherExtensions(ctx, c); err != nil {
		return nil, err
	}
	if err := w.gatherAccounts(ctx, c); err != nil {
		return nil, err
	}
	if err := w.gatherHooks(ctx, c); err != nil {
		return nil, err
	}
	return w, w.gatherRBAC(ctx, c)
}

// gatherHooks reads the webhook configurations of operators.
func (w *world) gatherHooks(ctx context.Context, c client.Client) error {
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &admissionregistrationv1.MutatingWebhookConfigurationList{}
	for _, list := range []client.ObjectList{validating, mutating} {
		err := c.List(ctx, list, client.HasLabels{names.LabelLineage})
		if apierrors.IsForbidden(err) {
			w.note("webhooks of operators that were deleted without them are unknown: %v", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range validating.Items {
		w.hooks = append(w.hooks, &validating.Items[i])
	}
	for i := range mutating.Items {
		w.hooks = append(w.hooks, &mutating.Items[i])
	}
	return nil
}

func (w *world) list(ctx context.Context, c client.Client, list client.ObjectList, namespace string) error {
	err := c.List(ctx, list, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) {
		w.complete = false
		w.note("%v", err)
		return nil
	}
	return err
}

// gatherExtensions reads the ClusterExtensions. If the cluster does not serve ClusterExtensions, there are none.
func (w *world) gatherExtensions(ctx context.Context, c client.Client) error {
	var list olmv1.ClusterExtensionList
	err := c.List(ctx, &list)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		w.note("ClusterExtensions and unused permissions of ClusterExtensions are unknown: %v", err)
		return nil
	case err != nil:
		return fmt.Errorf("list ClusterExtensions: %w", err)
	}
	w.extensions, w.hasExtensions = list.Items, true
	return nil
}

func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *world) gatherAccounts(ctx context.Context, c client.Client) error {
	for i := range w.groups {
		key := types.NamespacedName{Namespace: w.groups[i].Namespace, Name: w.groups[i].Spec.ServiceAccountName}
		if _, known := w.accounts[key]; known || key.Name == "" {
			continue
		}
		err := c.Get(ctx, key, &corev1.ServiceAccount{})
		switch {
		case err == nil:
			w.accounts[key] = Yes
		case apierrors.IsForbidden(err):
			w.accounts[key] = Unknown
			w.note("%v", err)
		case apierrors.IsNotFound(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err), !isName(key.Name):
			w.accounts[key] = No
		default:
			return fmt.Errorf("get ServiceAccount %s: %w", key, err)
		}
	}
	return nil
}

// gatherRBAC reads the RBAC of all namespaces, because an account can have permissions in any of them. If that is not
// allowed, it reads the RBAC of the groups' namespaces and targets.
func (w *world) gatherRBAC(ctx context.Context, c client.Client) error {
	listers, err := grants.Read(ctx, c, nil)
	if apierrors.IsForbidden(err) {
		w.partial = true
		listers, err = grants.Read(ctx, c, w.namespaces())
	}
	switch {
	case apierrors.IsForbidden(err):
		w.note("cannot determine the permissions of the accounts: %v", err)
		return nil
	case err != nil:
		return err
	}
	w.rbac = &listers
	if w.partial {
		w.note("you are not allowed to read RBAC in all namespaces: permissions of the accounts in other namespaces are unknown")
	}
	return nil
}

// namespaces returns the requested namespace, and the groups' namespaces and target namespaces.
func (w *world) namespaces() []string {
	out := []string{}
	if w.requested != "" {
		out = append(out, w.requested)
	}
	for i := range w.groups {
		out = append(append(out, w.groups[i].Namespace), w.groups[i].Status.Namespaces...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
