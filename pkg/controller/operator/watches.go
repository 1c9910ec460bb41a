package operator

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// workers is the number of namespaces that are reconciled concurrently.
const workers = 4

// maxCandidates is the maximum number of an object's component labels that are compared with its mark. Objects that Remit creates
// have only one.
const maxCandidates = 4

// SetupWithManager registers the watches. Except for the watch of Operators, they share the informers of other controllers. The
// controller does not poll or resync.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("operator").
		WithOptions(fairqueue.Options(mgr, workers, nil)).
		WatchesRawSource(r.events(mgr.GetCache())).
		Complete(r)
}

// events returns a source that enqueues the namespace of each changed object after a delay, so that one reconcile handles
// many events. The objects that exist when the program starts do not increase the delay, because nothing is being installed.
// A new Subscription or OperatorGroup is handled at once, so that an Operator exists when its InstallPlan is complete.
func (r *Reconciler) events(informers cache.Informers) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		enqueue := func(settled func(namespace string, delay time.Duration) time.Duration) kit.Notify {
			return func(before, after client.Object) {
				namespaces, delay := r.concerned(ctx, before, after)
				for _, namespace := range namespaces {
					queue.AddAfter(kit.Request("", namespace), settled(namespace, delay))
				}
			}
		}
		existing := enqueue(func(_ string, delay time.Duration) time.Duration { return max(delay, kit.SettleTime) })
		changed := enqueue(func(namespace string, delay time.Duration) time.Duration {
			if delay == atOnce {
				return atOnce
			}
			return max(delay, r.settling.Time(namespace))
		})
		for _, kind := range kinds() {
			if err := kit.OnEvents(ctx, informers, kind, existing, changed); err != nil {
				return err
			}
		}
		return nil
	})
}

func kinds() []client.Object {
	return []client.Object{
		&operatorsv1.Operator{}, &operatorsv1.OperatorGroup{}, &operatorsv2.OperatorCondition{}, &corev1.Namespace{},
		&operatorsv1alpha1.Subscription{}, &operatorsv1alpha1.ClusterServiceVersion{}, &operatorsv1alpha1.InstallPlan{},
		&appsv1.Deployment{}, &corev1.ServiceAccount{}, &corev1.Service{},
		&apiextensionsv1.CustomResourceDefinition{}, &apiregistrationv1.APIService{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
}

// atOnce is the delay of changes that are reconciled immediately.
const atOnce time.Duration = 0

// concerned returns the namespaces whose Operators a change affects, and the minimum delay before their reconcile. before is nil
// for a new object, and after is nil for a deleted one.
func (r *Reconciler) concerned(ctx context.Context, before, after client.Object) (namespaces []string, delay time.Duration) {
	delay = kit.SettleTime
	switch {
	case after == nil:
		if isOperator(before) {
			r.written.Delete(before.GetName())
		}
	case before == nil:
		switch o := after.(type) {
		case *corev1.Namespace:
			if r.isEmpty(ctx, o.Name) {
				return nil, 0
			}
		case *operatorsv1alpha1.Subscription, *operatorsv1.OperatorGroup:
			delay = atOnce
		}
	case isOperator(after):
		if r.isWritten(after) {
			return nil, 0
		}
		delay = correction
	case reflect.DeepEqual(factsOf(before), factsOf(after)):
		return nil, 0
	}
	for _, obj := range []client.Object{before, after} {
		if obj != nil {
			namespaces = append(namespaces, r.namespaces(obj)...)
		}
	}
	namespaces = slices.DeleteFunc(namespaces, func(namespace string) bool { return namespace == "" })
	slices.Sort(namespaces)
	return slices.Compact(namespaces), delay
}

// isEmpty reports whether the cache contains no Subscriptions and no ClusterServiceVersions of a new namespace, which is usually
// the case. The cache can receive them before it receives the Namespace.
func (r *Reconciler) isEmpty(ctx context.Context, namespace string) bool {
	for _, list := range []client.ObjectList{&operatorsv1alpha1.SubscriptionList{}, &operatorsv1alpha1.ClusterServiceVersionList{}} {
		err := r.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(1), client.UnsafeDisableDeepCopy)
		if err != nil || meta.LenList(list) > 0 {
			return false
		}
	}
	return true
}

func isOperator(obj client.Object) bool {
	_, ok := obj.(*operatorsv1.Operator)
	return ok
}

// isWritten reports whether this program wrote the current status of an Operator.
func (r *Reconciler) isWritten(obj client.Object) bool {
	op, ok := obj.(*operatorsv1.Operator)
	if !ok {
		return false
	}
	return r.written.Get(op.Name) == fingerprintOf(op)
}

// facts is what a reconcile reads from a component.
type facts struct {
	mark, proof, managedBy, pkg string
	plan                        types.UID
	owners                      []metav1.OwnerReference
	conditions                  []operatorsv1.Condition
}

func factsOf(obj client.Object) facts {
	f := facts{
		mark: obj.GetLabels()[names.LabelLineage], proof: obj.GetAnnotations()[names.AnnotationProof],
		managedBy: obj.GetAnnotations()[names.AnnotationManagedBy], owners: obj.GetOwnerReferences(),
	}
	if sub, ok := obj.(*operatorsv1alpha1.Subscription); ok && sub.Spec != nil {
		f.pkg = sub.Spec.Package
		if sub.Status.InstallPlanRef != nil {
			f.plan = sub.Status.InstallPlanRef.UID
		}
	}
	for _, c := range conditionsOf(obj) {
		c.LastUpdateTime = nil
		f.conditions = append(f.conditions, c)
	}
	return f
}

// namespaces returns the namespaces whose Operators an object may affect.
func (r *Reconciler) namespaces(obj client.Object) []string {
	switch obj.(type) {
	case *corev1.Namespace:
		return []string{obj.GetName()}
	case *operatorsv1.Operator:
		return []string{namespaceOf(obj.GetName())}
	case *operatorsv1.OperatorGroup, *operatorsv2.OperatorCondition, *operatorsv1alpha1.Subscription, *operatorsv1alpha1.ClusterServiceVersion, *operatorsv1alpha1.InstallPlan:
		return []string{obj.GetNamespace()}
	}
	mark := obj.GetLabels()[names.LabelLineage]
	if mark == "" || r.Proofs.Check(obj, mark) != nil {
		return nil
	}
	switch obj.(type) {
	case *appsv1.Deployment, *corev1.ServiceAccount, *corev1.Service: // always in the namespace of their install
		return []string{obj.GetNamespace()}
	}
	return []string{namespaceOfLineage(obj, mark)}
}

// namespaceOfLineage returns the namespace of the install with this mark, according to the labels of an object. Users can change
// the labels, so a component label counts only if it matches the mark. If no component label does, for example because it is
// truncated, the result is the namespace in the owner labels.
func namespaceOfLineage(obj client.Object, mark string) string {
	candidates := 0
	for key := range obj.GetLabels() {
		name, ok := strings.CutPrefix(key, names.LabelComponentPrefix)
		namespace := namespaceOf(name)
		if !ok || namespace == "" {
			continue
		}
		if candidates++; candidates > maxCandidates {
			break
		}
		for _, direct := range []bool{false, true} {
			l := ownerutil.Lineage{Package: strings.TrimSuffix(name, "."+namespace), Namespace: namespace, Direct: direct}
			if l.IsMark(mark) {
				return namespace
			}
		}
	}
	return obj.GetLabels()[names.LabelOwnerNamespace]
}
