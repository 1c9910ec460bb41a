package csv

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

type match func(csv *operatorsv1alpha1.ClusterServiceVersion) bool

// matching lists the live ClusterServiceVersions that match.
func (r *Reconciler) matching(ctx context.Context, m match, opts ...client.ListOption) []reconcile.Request {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is not there yet: its first list brings every one of them anyway
	}
	var out []reconcile.Request
	for i := range list.Items {
		if csv := &list.Items[i]; !isCopy(csv) && m(csv) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}
	return out
}

// settled says that nothing is waited for: it is installed, and there is nothing to note.
func settled(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.DeletionTimestamp == nil && csv.Status.Phase == phaseSucceeded && csv.Status.Message == messageSucceeded
}

func waits(csv *operatorsv1alpha1.ClusterServiceVersion) bool { return !settled(csv) }

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(*operatorsv1alpha1.ClusterServiceVersion) bool { return true }, client.InNamespace(obj.GetNamespace()))
}

// subscribed wakes what a Subscription brought: its config goes into the Deployments.
func (r *Reconciler) subscribed(_ context.Context, obj client.Object) []reconcile.Request {
	sub, ok := obj.(*operatorsv1alpha1.Subscription)
	if !ok {
		return nil
	}
	out := request(sub.Namespace, sub.Status.InstalledCSV)
	if sub.Status.CurrentCSV != sub.Status.InstalledCSV {
		out = append(out, request(sub.Namespace, sub.Status.CurrentCSV)...)
	}
	return out
}

// deployed wakes the owner of a Deployment, and whoever waits for a stranger's of that name to go.
func (r *Reconciler) deployed(ctx context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind {
			out = append(out, request(obj.GetNamespace(), ref.Name)...)
		}
	}
	if len(out) > 0 {
		return out
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return waits(csv) && slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs,
			func(d operatorsv1alpha1.StrategyDeploymentSpec) bool { return d.Name == obj.GetName() })
	}, client.InNamespace(obj.GetNamespace()))
}

// naming wakes those that own or require a CustomResourceDefinition, or wait for a kind that it may bring.
func (r *Reconciler) naming(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		defs := csv.Spec.CustomResourceDefinitions
		named := func(d operatorsv1alpha1.CRDDescription) bool { return d.Name == obj.GetName() }
		return slices.ContainsFunc(defs.Owned, named) || slices.ContainsFunc(defs.Required, named) ||
			len(csv.Spec.NativeAPIs) > 0 && waits(csv)
	})
}

// serving wakes the owner of an APIService, whoever waits for its name, and those that wait for an API.
func (r *Reconciler) serving(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.owning(ctx, obj), r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return waits(csv) && (len(csv.Spec.NativeAPIs)+len(csv.Spec.APIServiceDefinitions.Required) > 0 || csv.OwnsAPIService(obj.GetName()))
	})...)
}

// calledThrough wakes the owner of a Service, and whoever waits for its name.
func (r *Reconciler) calledThrough(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.owning(ctx, obj), r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return waits(csv) && slices.ContainsFunc(serving.Served(csv), func(d serving.Deployment) bool {
			return cert.ServiceName(d.Name) == obj.GetName()
		})
	}, client.InNamespace(obj.GetNamespace()))...)
}

// calling wakes the owner of a webhook configuration, or else whoever waits for its name.
func (r *Reconciler) calling(ctx context.Context, obj client.Object) []reconcile.Request {
	if r.proven(obj) {
		return r.owning(ctx, obj)
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return waits(csv) && slices.ContainsFunc(csv.Spec.WebhookDefinitions, func(d operatorsv1alpha1.WebhookDescription) bool {
			return strings.HasPrefix(obj.GetName(), d.GenerateName+"-")
		})
	})
}

// owning finds the ClusterServiceVersion that an object was made for, and those of its lineage that wait: what an earlier
// version has left may be what they note. Anybody can write the labels of a stranger's ClusterServiceVersion on an object
// of their own, so it takes the proof, and a lineage that the proof is for. One whose object is changed or loses its proof
// is woken by the object as it was.
func (r *Reconciler) owning(ctx context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	namespace, owner, mark := labels[names.LabelOwnerNamespace], labels[names.LabelOwner], labels[names.LabelLineage]
	if namespace == "" || owner == "" || !r.proven(obj) {
		return nil
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return mayBe(csv, mark) && (ownerutil.LabelValue(csv.Name) == owner || waits(csv))
	}, client.InNamespace(namespace))
}

// proven says whether Remit made the object for the lineage that its label names.
func (r *Reconciler) proven(obj client.Object) bool {
	mark := obj.GetLabels()[names.LabelLineage]
	return mark != "" && r.proofs.Check(obj, mark) == nil
}

// mayBe says whether a ClusterServiceVersion is of a lineage, or claims to be: ownerOf decides.
func mayBe(csv *operatorsv1alpha1.ClusterServiceVersion, mark string) bool {
	return csv.Labels[names.LabelLineage] == mark || directLineage(csv).Mark() == mark
}

func request(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// looking returns the reconciler for one look at a ClusterServiceVersion: changes of what it asks of RBAC
// then wake it.
func (r *Reconciler) looking(req ctrl.Request) (*Reconciler, func()) {
	look := *r
	var looked func()
	look.rbac, looked = r.interests.Track(req, r.rbac)
	return &look, looked
}

// followRights lets changes of what the account holds, where the operator runs or works, wake the CSV,
// whatever else it asks: where the API server refused something, the answer did not come from listers.
func (r *Reconciler) followRights(s *scope) error {
	for _, namespace := range append(s.ruleScopes(), s.csv.Namespace) {
		held := r.rbac.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
		if err := errors.Join(held.ReadErrors...); err != nil {
			return preflight.HoldsTooMuch(s.account, err)
		}
	}
	return nil
}

// Concerned lists the ClusterServiceVersions that a change of RBAC, of a ServiceAccount or of a Namespace
// concerns. before is nil for a new object, after for one that is gone.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	groups, err := r.cached.Concerned(ctx, before, after)
	if err != nil {
		return nil // as in matching
	}
	out := append(r.interests.Concerned(before, after), r.marked(ctx, before, after)...)
	for i := range groups {
		out = append(out, r.inNamespace(ctx, &groups[i])...)
	}
	return out
}

// marked finds those that made the object, and may have to again, and those that declare a ServiceAccount
// and look at its marks.
func (r *Reconciler) marked(ctx context.Context, before, after client.Object) []reconcile.Request {
	obj := after
	if obj == nil {
		obj = before
	}
	update := before != nil && after != nil
	switch obj.(type) {
	case *corev1.Namespace:
		return nil
	case *corev1.ServiceAccount:
		if update && sameMarks(before, after) {
			return nil
		}
		return append(r.declaring(ctx, obj), r.intercepting(ctx, obj)...)
	}
	if !update {
		return r.owning(ctx, obj)
	}
	isMarked := before.GetLabels()[names.LabelLineage] != "" || after.GetLabels()[names.LabelLineage] != ""
	if !isMarked || sameContent(before, after) {
		return nil
	}
	out := r.owning(ctx, after)
	if !sameMarks(before, after) {
		out = append(out, r.owning(ctx, before)...)
	}
	return out
}

func sameMarks(a, b client.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		a.GetAnnotations()[names.AnnotationProof] == b.GetAnnotations()[names.AnnotationProof]
}

// sameContent says that an update changed nothing but what the API server writes itself.
func sameContent(before, after client.Object) bool {
	was, ok := before.DeepCopyObject().(client.Object)
	if !ok {
		return false
	}
	was.SetResourceVersion(after.GetResourceVersion())
	was.SetGeneration(after.GetGeneration())
	was.SetManagedFields(after.GetManagedFields())
	return equality.Semantic.DeepEqual(was, after)
}

// intercepting wakes those who might make something run as a ServiceAccount that came or went. One of another target
// is met at the next look.
func (r *Reconciler) intercepting(ctx context.Context, sa client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return slices.ContainsFunc(csv.Spec.WebhookDefinitions, func(d operatorsv1alpha1.WebhookDescription) bool {
			return d.Type == operatorsv1alpha1.MutatingAdmissionWebhook
		})
	}, client.InNamespace(sa.GetNamespace()))
}

func (r *Reconciler) declaring(ctx context.Context, sa client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return slices.Contains(bundle.ServiceAccountNames(csv), sa.GetName())
	}, client.InNamespace(sa.GetNamespace()))
}
