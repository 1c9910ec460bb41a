package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/resolver"
)

// world is all that is looked at for one namespace, read once from the cache.
type world struct {
	namespace     string
	subscriptions []operatorsv1alpha1.Subscription
	csvs          []operatorsv1alpha1.ClusterServiceVersion
	plans         []operatorsv1alpha1.InstallPlan
	sources       map[types.NamespacedName]*metav1.PartialObjectMetadata
	input         resolver.Input
	// blocked says why nothing can be resolved in the namespace: it has no usable account or targets.
	blocked *resolver.Problem
}

func (r *Reconciler) gather(ctx context.Context, namespace string) (*world, error) {
	w := &world{namespace: namespace}
	subs := &operatorsv1alpha1.SubscriptionList{}
	if err := r.Client.List(ctx, subs, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Subscriptions: %w", err)
	}
	w.subscriptions = subs.Items
	slices.SortFunc(w.subscriptions, func(a, b operatorsv1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.Client.List(ctx, csvs, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list ClusterServiceVersions: %w", err)
	}
	w.csvs = csvs.Items
	plans := &operatorsv1alpha1.InstallPlanList{}
	if err := r.Client.List(ctx, plans, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list InstallPlans: %w", err)
	}
	w.plans = plans.Items
	if err := r.gatherSources(ctx, w); err != nil {
		return nil, err
	}
	return w, r.gatherInput(ctx, w)
}

// gatherSources reads metadata only: a spec is the catalogsource controller's matter, and there are
// specs that the API module's types cannot decode (contract 1.1, trap).
func (r *Reconciler) gatherSources(ctx context.Context, w *world) error {
	w.sources = map[types.NamespacedName]*metav1.PartialObjectMetadata{}
	for _, namespace := range []string{w.namespace, r.GlobalCatalogNamespace} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind + "List"))
		if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list CatalogSources: %w", err)
		}
		for i := range list.Items {
			w.sources[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
		}
	}
	return nil
}

func (r *Reconciler) gatherInput(ctx context.Context, w *world) error {
	w.input = resolver.Input{
		Namespace:              w.namespace,
		GlobalCatalogNamespace: r.GlobalCatalogNamespace,
		Catalogs:               r.Catalogs,
		Roles:                  r.RBAC.Roles,
		RoleBindings:           r.RBAC.RoleBindings,
		ClusterRoles:           r.RBAC.ClusterRoles,
		ClusterRoleBindings:    r.RBAC.ClusterRoleBindings,
	}
	account, og, err := scoped.Lookup{Reader: r.Client, Default: r.Default}.Account(ctx, w.namespace)
	var problem *scoped.Error
	switch {
	case errors.As(err, &problem):
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: problem.Message}
		return nil
	case err != nil:
		return err
	}
	w.input.Account, w.input.Group = account, og.Name
	if w.input.Targets, err = scoped.Targets(ctx, r.Client, og); err != nil {
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: err.Error()}
		return nil
	}
	if len(w.input.Targets) == 0 {
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: fmt.Sprintf(
			"OperatorGroup %s/%s selects no namespaces", og.Namespace, og.Name)}
	}
	return nil
}

// installedFor is the CSV of the Subscription's package in its namespace. Where a Subscription with
// the same package stands beside it, both see the same one.
func (w *world) installedFor(sub *operatorsv1alpha1.Subscription) *operatorsv1alpha1.ClusterServiceVersion {
	lineage := ownerutil.Lineage{Package: sub.Spec.Package, Namespace: w.namespace}
	var newest *operatorsv1alpha1.ClusterServiceVersion
	for i := range w.csvs {
		csv := &w.csvs[i]
		if !lineage.Owns(csv) || csv.Labels[names.LabelCopiedFrom] != "" || csv.DeletionTimestamp != nil {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&csv.CreationTimestamp) {
			newest = csv
		}
	}
	return newest
}

// planOf is the newest plan that was made for the Subscription, by what its name commits to.
func (w *world) planOf(sub *operatorsv1alpha1.Subscription) *operatorsv1alpha1.InstallPlan {
	var newest *operatorsv1alpha1.InstallPlan
	for i := range w.plans {
		ip := &w.plans[i]
		plan, err := resolver.Decode(ip.Namespace, ip.Name, ip.Annotations[names.AnnotationPlan])
		if err != nil || ip.DeletionTimestamp != nil {
			continue
		}
		mine := slices.ContainsFunc(plan.Pins, func(p resolver.Pin) bool { return p.SubscriptionUID == sub.UID })
		if mine && (newest == nil || newest.Spec.Generation < ip.Spec.Generation) {
			newest = ip
		}
	}
	return newest
}

// catalogView is the state of the CatalogSource that a Subscription names.
type catalogView struct {
	key     types.NamespacedName
	source  *metav1.PartialObjectMetadata
	healthy bool
}

func (w *world) catalogOf(sub *operatorsv1alpha1.Subscription) catalogView {
	v := catalogView{key: types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}}
	v.source = w.sources[v.key]
	if v.source != nil {
		_, v.healthy = w.input.Catalogs.Get(v.key)
	}
	return v
}
