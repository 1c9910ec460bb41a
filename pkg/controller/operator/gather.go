package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// byNamespace is the index of Operators by the namespace in their name.
const byNamespace = "remit.dev/namespace"

// Index adds the index of Operators that a Reconciler needs. The cache also needs that of kit.IndexLineage.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &operatorsv1.Operator{}, byNamespace, func(obj client.Object) []string { return []string{namespaceOf(obj.GetName())} })
}

// state is what the cache contains about the operators of a namespace.
type state struct {
	// namespace is nil if it does not exist.
	namespace *corev1.Namespace
	// grouped is true if the namespace has an OperatorGroup.
	grouped bool
	// existing contains the Operators of the namespace, by name.
	existing map[string]*operatorsv1.Operator
	// operators are those with components, sorted by name. There are at most maxOperators.
	operators []operator
}

// gather reads the Operators of a namespace and determines those that should exist.
func (r *Reconciler) gather(ctx context.Context, namespace string) (*state, error) {
	w := &state{existing: map[string]*operatorsv1.Operator{}}
	list := &operatorsv1.OperatorList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{byNamespace: namespace}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Operators: %w", err)
	}
	for i := range list.Items {
		w.existing[list.Items[i].Name] = &list.Items[i]
	}
	ns := &corev1.Namespace{}
	if exists, err := apply.Read(ctx, r.Client, client.ObjectKey{Name: namespace}, ns); err != nil || !exists {
		return w, err
	}
	w.namespace = ns
	groups := &operatorsv1.OperatorGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list OperatorGroups: %w", err)
	}
	w.grouped = len(groups.Items) > 0
	installs, err := r.installs(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, pkg := range slices.Sorted(maps.Keys(installs)) {
		in := installs[pkg]
		if len(w.operators) == maxOperators {
			break
		}
		if err := r.addCreated(ctx, in); err != nil {
			return nil, err
		}
		if len(in.components) > 0 {
			w.operators = append(w.operators, operator{Lineage: in.owner.Lineage, components: in.components})
		}
	}
	return w, nil
}

// install is a package in a namespace.
type install struct {
	owner      ownerutil.Owner
	components []component
	// plans contains the InstallPlans that the Subscriptions name. There can be many Subscriptions, and each names one InstallPlan.
	plans map[types.UID]bool
}

func (in *install) add(scheme *runtime.Scheme, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return fmt.Errorf("determine the kind of object %q: %w", obj.GetName(), err)
	}
	in.components = append(in.components, component{
		ref:        corev1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		conditions: conditionsOf(obj),
	})
	return nil
}

// installs returns the packages of the namespace's Subscriptions, ClusterServiceVersions and Operators, with their
// Subscriptions, InstallPlans, ClusterServiceVersions and OperatorConditions. A ClusterServiceVersion belongs to the package
// for which an InstallPlan created it, according to its proof.
func (r *Reconciler) installs(ctx context.Context, w *state) (map[string]*install, error) {
	all, marked := map[string]*install{}, map[string]*install{}
	installOf := func(pkg string) *install {
		if all[pkg] == nil && isNameable(pkg, w.namespace.Name) {
			in := &install{plans: map[types.UID]bool{}, owner: ownerutil.Owner{
				Lineage: ownerutil.Lineage{Package: pkg, Namespace: w.namespace.Name}, Since: w.namespace.CreationTimestamp.Time, Proofs: r.Proofs,
			}}
			all[pkg], marked[in.owner.ShortMark()] = in, in
		}
		return all[pkg]
	}
	for name, live := range w.existing {
		if r.isOwn(live) {
			installOf(strings.TrimSuffix(name, "."+w.namespace.Name))
		}
	}
	subs := &operatorsv1alpha1.SubscriptionList{}
	if err := r.Client.List(ctx, subs, client.InNamespace(w.namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Subscriptions: %w", err)
	}
	for i := range subs.Items {
		if sub := &subs.Items[i]; sub.Spec != nil {
			if err := r.addSubscription(ctx, installOf(sub.Spec.Package), sub); err != nil {
				return nil, err
			}
		}
	}
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.Client.List(ctx, csvs, client.InNamespace(w.namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterServiceVersions: %w", err)
	}
	for i := range csvs.Items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.addCSV(ctx, installOf(r.packageOf(marked, &csvs.Items[i])), &csvs.Items[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// packageOf returns the package of a ClusterServiceVersion that an InstallPlan created, or "" for any other one. marked contains
// the known packages by mark, because there can be many ClusterServiceVersions with a forged label.
func (r *Reconciler) packageOf(marked map[string]*install, csv *operatorsv1alpha1.ClusterServiceVersion) string {
	mark := csv.Labels[names.LabelLineage]
	if _, copied := csv.Labels[names.LabelCopiedFrom]; copied || mark == "" {
		return ""
	}
	if in := marked[names.ShortMark(mark)]; in != nil && in.owner.Owns(csv) {
		return in.owner.Package
	}
	if owner, ok := ownerutil.OwnerIn(csv, csv.Namespace, csv.CreationTimestamp.Time, r.Proofs); ok && !owner.Direct {
		return owner.Package
	}
	return ""
}

// addSubscription adds a Subscription and the InstallPlan that its status names.
func (r *Reconciler) addSubscription(ctx context.Context, to *install, sub *operatorsv1alpha1.Subscription) error {
	if to == nil {
		return nil
	}
	err := to.add(r.Client.Scheme(), sub)
	if err != nil || sub.Status.InstallPlanRef == nil || to.plans[sub.Status.InstallPlanRef.UID] {
		return err
	}
	to.plans[sub.Status.InstallPlanRef.UID] = true
	plan := &operatorsv1alpha1.InstallPlan{}
	exists, err := apply.Read(ctx, r.Client, client.ObjectKey{Namespace: sub.Namespace, Name: sub.Status.InstallPlanRef.Name}, plan)
	if err != nil || !exists || plan.UID != sub.Status.InstallPlanRef.UID {
		return err
	}
	return to.add(r.Client.Scheme(), plan)
}

// addCSV adds a ClusterServiceVersion and the OperatorCondition that it owns.
func (r *Reconciler) addCSV(ctx context.Context, to *install, csv *operatorsv1alpha1.ClusterServiceVersion) error {
	if to == nil {
		return nil
	}
	if err := to.add(r.Client.Scheme(), csv); err != nil {
		return err
	}
	cond := &operatorsv2.OperatorCondition{}
	exists, err := apply.Read(ctx, r.Client, client.ObjectKeyFromObject(csv), cond)
	isOwner := func(ref metav1.OwnerReference) bool { return ref.UID == csv.UID }
	if err != nil || !exists || !slices.ContainsFunc(cond.OwnerReferences, isOwner) {
		return err
	}
	return to.add(r.Client.Scheme(), cond)
}

// addCreated adds the objects that Remit created for the package, according to their proofs.
func (r *Reconciler) addCreated(ctx context.Context, in *install) error {
	inNamespace := []client.ListOption{client.InNamespace(in.owner.Namespace), in.owner.Marked()}
	inCluster := []client.ListOption{client.MatchingFields{kit.LineageIndex: in.owner.ShortMark()}}
	for _, kind := range createdKinds() {
		opts := inCluster
		if kind.local {
			opts = inNamespace
		}
		if err := r.Client.List(ctx, kind.list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("list %T: %w", kind.list, err)
		}
		err := meta.EachListItem(kind.list, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			// Any number of objects in other namespaces can have the label, but most forgeries have no proof.
			if !ok || obj.GetAnnotations()[names.AnnotationProof] == "" || !in.owner.Owns(obj) {
				return ctx.Err()
			}
			return in.add(r.Client.Scheme(), obj)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createdKind is a kind of objects that installs create.
type createdKind struct {
	list client.ObjectList
	// local is true if the objects are always in the namespace of their install.
	local bool
}

// createdKinds returns the kinds of objects that installs create and that other controllers of the program already watch.
func createdKinds() []createdKind {
	return []createdKind{
		{&appsv1.DeploymentList{}, true}, {&corev1.ServiceAccountList{}, true}, {&corev1.ServiceList{}, true},
		{&apiextensionsv1.CustomResourceDefinitionList{}, false}, {&apiregistrationv1.APIServiceList{}, false},
		{&admissionregistrationv1.ValidatingWebhookConfigurationList{}, false}, {&admissionregistrationv1.MutatingWebhookConfigurationList{}, false},
		{&rbacv1.ClusterRoleList{}, false}, {&rbacv1.ClusterRoleBindingList{}, false}, {&rbacv1.RoleList{}, false}, {&rbacv1.RoleBindingList{}, false},
	}
}
