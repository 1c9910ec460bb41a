package status

import (
	"context"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/pkg/rbac"
)

// world is what was read. Lists that the user may not read are empty, and notes say so.
type world struct {
	groups        []operatorsv1.OperatorGroup
	subscriptions []operatorsv1alpha1.Subscription
	plans         []operatorsv1alpha1.InstallPlan
	csvs          []operatorsv1alpha1.ClusterServiceVersion
	// complete says that all three lists were read: only then is it known what installs need.
	complete bool
	// accounts says of those that groups name whether they exist.
	accounts map[types.NamespacedName]Answer
	// rbac is nil where it could not be read; somewhere says that only some namespaces could.
	rbac      *rbac.Listers
	somewhere bool
	notes     []string
}

// gather reads a namespace, or all. OperatorGroups have to be readable; for the rest there are notes.
func gather(ctx context.Context, c client.Client, namespace string) (*world, error) {
	w := &world{complete: true, accounts: map[types.NamespacedName]Answer{}}
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
	w.csvs = slices.DeleteFunc(csvs.Items, func(csv operatorsv1alpha1.ClusterServiceVersion) bool { return csv.IsCopied() })
	if err := w.gatherAccounts(ctx, c); err != nil {
		return nil, err
	}
	return w, w.gatherRBAC(ctx, c)
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

// gatherRBAC reads that of all namespaces, as an account may hold rules anywhere, or else that of those
// which the groups are about.
func (w *world) gatherRBAC(ctx context.Context, c client.Client) error {
	listers, err := grants.Read(ctx, c, nil)
	if apierrors.IsForbidden(err) {
		w.somewhere = true
		listers, err = grants.Read(ctx, c, w.namespaces())
	}
	switch {
	case apierrors.IsForbidden(err):
		w.note("what the accounts hold is not known: %v", err)
		return nil
	case err != nil:
		return err
	}
	w.rbac = &listers
	if w.somewhere {
		w.note("you may not read RBAC of all namespaces: what the accounts hold elsewhere is not known")
	}
	return nil
}

// namespaces are those of the groups and their targets.
func (w *world) namespaces() []string {
	out := []string{}
	for i := range w.groups {
		out = append(append(out, w.groups[i].Namespace), w.groups[i].Status.Namespaces...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
