package subscription

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// served are the kinds of the cluster's CustomResourceDefinitions, forward that a failed version may be replaced.
	served  map[schema.GroupVersionKind]bool
	forward bool
	input   resolver.Input
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
	for _, gather := range []func(context.Context, *world) error{r.gatherSources, r.gatherServed, r.gatherInput} {
		if err := gather(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (r *Reconciler) gatherServed(ctx context.Context, w *world) error {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.Client.List(ctx, crds, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	w.served = map[schema.GroupVersionKind]bool{}
	for i := range crds.Items {
		spec := &crds.Items[i].Spec
		for _, v := range spec.Versions {
			if v.Served {
				w.served[schema.GroupVersionKind{Group: spec.Group, Version: v.Name, Kind: spec.Names.Kind}] = true
			}
		}
	}
	return nil
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
		Visible:                slices.SortedFunc(maps.Keys(w.sources), compareKeys),
		Indexes:                r.indexes,
		Serves:                 func(gvk schema.GroupVersionKind) bool { return w.served[gvk] },
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
	w.input.ExcludeGlobal = og.Annotations[names.AnnotationExcludeGlobal] == "true"
	w.forward = og.UpgradeStrategy() == operatorsv1.UpgradeStrategyUnsafeFailForward
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

func compareKeys(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// installedFor is the CSV of the Subscription's package in its namespace. Where a Subscription with
// the same package stands beside it, both see the same one.
func (w *world) installedFor(sub *operatorsv1alpha1.Subscription) *operatorsv1alpha1.ClusterServiceVersion {
	lineage := w.lineage(sub)
	var newest *operatorsv1alpha1.ClusterServiceVersion
	for i := range w.csvs {
		csv := &w.csvs[i]
		if !lineage.Owns(csv) || csv.Labels[names.LabelCopiedFrom] != "" || csv.DeletionTimestamp != nil {
			continue
		}
		if newest == nil || newer(csv, newest) {
			newest = csv
		}
	}
	return newest
}

func (w *world) lineage(sub *operatorsv1alpha1.Subscription) ownerutil.Lineage {
	return ownerutil.Lineage{Package: sub.Spec.Package, Namespace: w.namespace}
}

// newer says whether a CSV came after another of its lineage. Several may be of one second.
func newer(a, b *operatorsv1alpha1.ClusterServiceVersion) bool {
	if a.Spec.Replaces == b.Name || b.Spec.Replaces == a.Name {
		return a.Spec.Replaces == b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
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
	// none says that there is no CatalogSource at all that the namespace may use.
	none bool
}

func (w *world) catalogOf(sub *operatorsv1alpha1.Subscription) catalogView {
	v := catalogView{key: types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}}
	v.source, v.none = w.sources[v.key], len(w.sources) == 0
	if v.source != nil {
		_, v.healthy = w.input.Catalogs.Get(v.key)
	}
	return v
}
