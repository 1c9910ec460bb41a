package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/proof"
)

// pageSize is the number of objects per list request.
const pageSize = 500

// world contains the objects that were read.
type world struct {
	home string
	// keys is nil if the keys cannot be read; problems then contains the reason.
	keys *proof.Keys
	// problems prevent any write.
	problems, notes []string
	// namespaces contains the namespaces to adopt, sorted. all contains every namespace of the cluster.
	namespaces []string
	all        map[string]*corev1.Namespace
	groups     map[string][]operatorsv1.OperatorGroup
	// targets contains the target namespaces of each namespace's OperatorGroup, and untargeted the errors if they are
	// unknown.
	targets       map[string][]string
	untargeted    map[string]error
	subscriptions map[string][]operatorsv1alpha1.Subscription
	plans         map[string][]operatorsv1alpha1.InstallPlan
	catalogs      map[string][]metav1.PartialObjectMetadata
	// csvs contains the ClusterServiceVersions of all namespaces, because they may share objects. copies contains their
	// copies, by the namespace of the original.
	csvs   map[string][]operatorsv1alpha1.ClusterServiceVersion
	copies map[string][]metav1.PartialObjectMetadata
	// objects contains the objects that may belong to an install. Most contain only metadata.
	objects []client.Object
}

// gather reads the cluster. namespace is the namespace to adopt, or "" for all.
func gather(ctx context.Context, c client.Client, home, namespace string) (*world, error) {
	w := &world{home: home, all: map[string]*corev1.Namespace{}, groups: map[string][]operatorsv1.OperatorGroup{}, targets: map[string][]string{},
		untargeted: map[string]error{}, subscriptions: map[string][]operatorsv1alpha1.Subscription{}, plans: map[string][]operatorsv1alpha1.InstallPlan{},
		catalogs: map[string][]metav1.PartialObjectMetadata{}, csvs: map[string][]operatorsv1alpha1.ClusterServiceVersion{}, copies: map[string][]metav1.PartialObjectMetadata{}}
	for _, step := range []func(context.Context, client.Client, string) error{
		w.gatherKeys, w.gatherPrograms, w.gatherNamespaces, w.gatherAPI, w.gatherTargets, w.gatherObjects,
	} {
		if err := step(ctx, c, namespace); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// gatherKeys reads the keys. A user who is not allowed to read them cannot adopt anything, but can list what would be
// adopted.
func (w *world) gatherKeys(ctx context.Context, c client.Client, _ string) error {
	key := types.NamespacedName{Namespace: w.home, Name: names.SecretProof}
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		w.problems = append(w.problems, fmt.Sprintf("Secret %s does not exist: Remit creates it when it starts; if Remit is installed in another namespace, use --remit-namespace", key))
		return nil
	case apierrors.IsForbidden(err):
		w.problems = append(w.problems, fmt.Sprintf("permission to read Remit's keys is required: %v", err))
		return nil
	case err != nil:
		return fmt.Errorf("get Secret %s: %w", key, err)
	}
	w.keys, err = proof.New(proof.Options{Scheme: c.Scheme(), Secret: key}, secret.Data)
	return err
}

func (w *world) gatherNamespaces(ctx context.Context, c client.Client, _ string) error {
	return each(ctx, c, &corev1.NamespaceList{}, func(ns *corev1.Namespace) { w.all[ns.Name] = ns.DeepCopy() })
}

// gatherAPI reads the objects of OLM's API, and determines the namespaces to adopt.
func (w *world) gatherAPI(ctx context.Context, c client.Client, namespace string) error {
	catalogs := metadataList(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind))
	in := client.InNamespace(namespace)
	err := errors.Join(
		each(ctx, c, &operatorsv1.OperatorGroupList{}, func(og *operatorsv1.OperatorGroup) { w.groups[og.Namespace] = append(w.groups[og.Namespace], *og) }, in),
		each(ctx, c, &operatorsv1alpha1.SubscriptionList{}, func(s *operatorsv1alpha1.Subscription) {
			w.subscriptions[s.Namespace] = append(w.subscriptions[s.Namespace], *s)
		}, in),
		each(ctx, c, &operatorsv1alpha1.InstallPlanList{}, func(ip *operatorsv1alpha1.InstallPlan) { w.plans[ip.Namespace] = append(w.plans[ip.Namespace], *ip) }, in),
		each(ctx, c, catalogs, func(cs *metav1.PartialObjectMetadata) {
			w.catalogs[cs.Namespace] = append(w.catalogs[cs.Namespace], *cs)
		}, in),
		each(ctx, c, &operatorsv1alpha1.ClusterServiceVersionList{}, w.addCSV),
	)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("neither OLM v0 nor Remit is installed on this cluster: %w", err)
	}
	if err != nil {
		return err
	}
	for name := range w.all {
		if namespace == name || namespace == "" && len(w.groups[name])+len(w.catalogs[name]) > 0 {
			w.namespaces = append(w.namespaces, name)
		}
	}
	if namespace != "" && len(w.namespaces) == 0 {
		return fmt.Errorf("namespace %q does not exist", namespace)
	}
	slices.Sort(w.namespaces)
	return nil
}

func (w *world) addCSV(csv *operatorsv1alpha1.ClusterServiceVersion) {
	if from, isCopy := csv.Labels[names.LabelCopiedFrom]; isCopy {
		w.copies[from] = append(w.copies[from], metav1.PartialObjectMetadata{ObjectMeta: csv.ObjectMeta})
		return
	}
	w.csvs[csv.Namespace] = append(w.csvs[csv.Namespace], *csv)
}

// gatherTargets determines the target namespaces. An error is a reason to refuse only that namespace: a tenant can cause it, for
// example with an invalid selector.
func (w *world) gatherTargets(ctx context.Context, c client.Client, _ string) error {
	for _, ns := range w.namespaces {
		if len(w.groups[ns]) != 1 {
			continue
		}
		_, targets, err := grants.Group(ctx, c, ns)
		w.targets[ns], w.untargeted[ns] = targets, err
	}
	return ctx.Err()
}

// gatherObjects reads the objects that may belong to an install: those of the kinds that a bundle can contain, and those
// that OLM creates for it. Objects outside the namespace are found through OLM's owner labels.
func (w *world) gatherObjects(ctx context.Context, c client.Client, namespace string) error {
	labeled := client.HasLabels{names.LabelOwnerNamespace}
	keep := func(obj client.Object) { w.objects = append(w.objects, obj) }
	for _, kind := range bundle.Kinds() {
		gk, opts := kind.GroupKind, []client.ListOption{}
		switch {
		case gk.Group == operatorsv1alpha1.GroupName, gk.Group == rbacv1.GroupName:
			continue
		case kind.Namespaced:
			opts = append(opts, client.InNamespace(namespace))
		case gk.Kind != "CustomResourceDefinition":
			opts = append(opts, labeled)
		}
		mapping, err := c.RESTMapper().RESTMapping(gk)
		if meta.IsNoMatchError(err) {
			continue // the cluster does not serve the kind, so there are no objects
		}
		if err != nil {
			return fmt.Errorf("find the version of %s: %w", gk, err)
		}
		if err := each(ctx, c, metadataList(mapping.GroupVersionKind), func(obj *metav1.PartialObjectMetadata) { keep(obj) }, opts...); err != nil {
			return err
		}
	}
	for _, gvk := range callbackKinds() {
		if err := each(ctx, c, metadataList(gvk), func(obj *metav1.PartialObjectMetadata) { keep(obj) }, labeled); err != nil {
			return err
		}
	}
	return errors.Join(
		each(ctx, c, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) { keep(d) }, client.InNamespace(namespace)),
		each(ctx, c, &rbacv1.RoleList{}, func(r *rbacv1.Role) { keep(r) }),
		each(ctx, c, &rbacv1.RoleBindingList{}, func(b *rbacv1.RoleBinding) { keep(b) }),
		each(ctx, c, &rbacv1.ClusterRoleList{}, func(r *rbacv1.ClusterRole) { keep(r) }, labeled),
		each(ctx, c, &rbacv1.ClusterRoleBindingList{}, func(b *rbacv1.ClusterRoleBinding) { keep(b) }, labeled),
	)
}

// callbackKinds returns the kinds that cause the API server to call an operator.
func callbackKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	}
}

func metadataList(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// each lists objects page by page, sets their kind, and calls keep for each.
func each[T client.Object](ctx context.Context, c client.Client, list client.ObjectList, keep func(T), opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	for page := ""; ; {
		list, ok := list.DeepCopyObject().(client.ObjectList) // decoding into a used list could keep fields of the previous page
		if !ok {
			return fmt.Errorf("%T is not a list", list)
		}
		if err := c.List(ctx, list, append(slices.Clone(opts), client.Limit(pageSize), client.Continue(page))...); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.DeepCopyObject().(T)
			if !ok {
				return fmt.Errorf("%T is not a %s", item, gvk.Kind)
			}
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			keep(obj)
			return nil
		})
		if err != nil {
			return err
		}
		if page = list.GetContinue(); page == "" {
			return nil
		}
	}
}

// createdAt returns the creation time of a namespace, or the zero time if it does not exist.
func (w *world) createdAt(namespace string) time.Time {
	if ns := w.all[namespace]; ns != nil {
		return ns.CreationTimestamp.Time
	}
	return time.Time{}
}
