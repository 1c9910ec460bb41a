package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
)

// world contains all inputs for one namespace. They are read from the cache once per reconcile.
type world struct {
	namespace string
	// leftToOLM is true if OLM manages the namespace but the cache does not show this yet.
	leftToOLM     bool
	proofs        ownerutil.Proofs
	subscriptions []operatorsv1alpha1.Subscription
	csvs          []operatorsv1alpha1.ClusterServiceVersion
	plans         []operatorsv1alpha1.InstallPlan
	sources       map[types.NamespacedName]*metav1.PartialObjectMetadata
	// served contains the served kinds. asking tells the resolver whether a kind is served, and records the kinds that
	// it requests.
	served served
	asking *kindRecorder
	// forward is true if failed versions can be replaced.
	forward bool
	input   resolver.Input
	// tracked are listers whose lookups wake the namespace when permissions change. They look up the permissions to get
	// Namespaces and, while there is no plan, those that the resolution found missing. The plan checks all other permissions.
	tracked rbac.Listers
	// isLoading is true if nothing was known about a visible catalog before anything was read from catalogs. A catalog that has been
	// loaded in the meantime wakes the namespace again.
	isLoading bool
	// named contains the accounts that the OperatorGroups name, even if nothing can be installed.
	named []types.NamespacedName
	// blocked is the reason that nothing can be resolved in the namespace, for example because it has no usable account
	// or no targets.
	blocked *resolver.Problem
	// after is the delay before a reconcile that no event triggers; 0 requests none.
	after time.Duration
	// unpackTimeout is how long a bundle may be unpacking before it is reported as failed; 0 means no limit.
	unpackTimeout time.Duration
	// found is nil until findings computes it.
	found *findings
}

// hasSubscription reports whether a Subscription with this name exists.
func (w *world) hasSubscription(name string) bool {
	return slices.ContainsFunc(w.subscriptions, func(sub operatorsv1alpha1.Subscription) bool { return sub.Name == name })
}

// wakeAfter requests another reconcile after at most d.
func (w *world) wakeAfter(d time.Duration) {
	if d > 0 && (w.after == 0 || d < w.after) {
		w.after = d
	}
}

// gather reads the inputs of a namespace. tracked contains the RBAC listers of this reconcile.
func (r *Reconciler) gather(ctx context.Context, namespace string, tracked rbac.Listers) (*world, error) {
	w := &world{namespace: namespace, proofs: r.Proofs, tracked: tracked}
	subs, csvs, plans := &operatorsv1alpha1.SubscriptionList{}, &operatorsv1alpha1.ClusterServiceVersionList{}, &operatorsv1alpha1.InstallPlanList{}
	for _, list := range []client.ObjectList{subs, csvs, plans} {
		if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	w.subscriptions, w.csvs, w.plans = subs.Items, csvs.Items, plans.Items
	slices.SortFunc(w.subscriptions, func(a, b operatorsv1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	for _, gather := range []func(context.Context, *world) error{r.gatherSources, r.gatherServed, r.gatherInput} {
		if err := gather(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (r *Reconciler) gatherServed(ctx context.Context, w *world) error {
	var err error
	if w.served, err = r.kinds.served(ctx, r.Client); err != nil {
		return err
	}
	w.asking = newKindRecorder(w.served)
	return nil
}

// gatherSources reads only the metadata of the CatalogSources. Only the catalogsource controller uses their specs, and
// the API module's types cannot decode every valid spec (OLM v0 contract).
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
		Reading:                &resolver.Reading{},
		Visible:                slices.SortedFunc(maps.Keys(w.sources), compareKeys),
		Indexes:                r.indexes,
		Serves:                 w.asking.serves, // does not reference the world, so queued jobs do not keep the world in memory
		RBAC:                   r.RBAC,
	}
	w.isLoading = r.isLoadingAny(w.input.Visible)
	lookup := r.Default.Lookup(r.Client)
	var err error
	if w.named, err = lookup.Named(ctx, w.namespace); err != nil {
		return err
	}
	account, og, err := lookup.Account(ctx, w.namespace)
	err = cmp.Or(err, scoped.CheckNotDeleted(og))
	var problem *scoped.Error
	switch {
	case errors.As(err, &problem):
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: problem.Message}
		if problem.Reason == scoped.NoOperatorGroup && len(w.subscriptions) > 0 {
			// The cache may be outdated, and the status of a Subscription that OLM manages must not change.
			w.leftToOLM, err = r.Default.Lookup(r.Live).LeavesToOLM(ctx, w.namespace)
			return err
		}
		return nil
	case err != nil:
		return err
	}
	w.input.Account, w.input.Group = account, og.Name
	w.input.ExcludeGlobal = og.Annotations[names.AnnotationExcludeGlobal] == "true"
	w.unpackTimeout = unpackTimeout(og)
	w.forward = og.UpgradeStrategy() == operatorsv1.UpgradeStrategyUnsafeFailForward
	switch w.input.Targets, err = lookup.Targets(ctx, og, preflight.NamespaceFilter{RBAC: w.tracked, Ask: r.ask}); {
	case errors.As(err, new(*scoped.UndecidedError)):
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: fmt.Sprintf("cannot determine all target namespaces of OperatorGroup %s; Remit tries again", og.Name)}
		w.after = unreadablePause
	case err != nil:
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: err.Error()}
	case len(w.input.Targets) == 0:
		w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: scoped.NoTargets(og, account)}
		if !r.RBAC.Readable() {
			w.after = unreadablePause
		}
	}
	return nil
}

func compareKeys(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// catalogView is the state of the CatalogSource that a Subscription names.
type catalogView struct {
	key     types.NamespacedName
	source  *metav1.PartialObjectMetadata
	healthy bool
	// none is true if no CatalogSource is visible to the namespace.
	none bool
}

func (w *world) catalogOf(sub *operatorsv1alpha1.Subscription) catalogView {
	v := catalogView{key: types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}}
	v.source, v.none = w.sources[v.key], len(w.sources) == 0
	v.healthy = v.source != nil && w.input.HasContent(v.key)
	return v
}
