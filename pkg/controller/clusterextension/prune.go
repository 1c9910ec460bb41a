package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

// prune removes, as the identity, the objects of earlier versions that this version does not have, and completes the pass.
func prune(ctx context.Context, s *run) (outcome, error) {
	others, err := s.others(ctx)
	if err != nil {
		return outcome{}, err
	}
	if out, err := s.resetConversions(ctx, others); err != nil || out.stopped {
		return out, err
	}
	for _, obj := range others {
		if err := s.remove(ctx, obj, metav1.DeletePropagationBackground); err != nil {
			return s.failed(err)
		}
	}
	if err := s.delayDeletion(ctx); err != nil {
		return outcome{}, err
	}
	s.pass.completed = true
	return s.settled(ctx)
}

// bundleName returns the name of the bundle in the catalog. The name of its ClusterServiceVersion may differ.
func (s *run) bundleName() string {
	if s.resolved.Bundle != nil {
		return s.resolved.Bundle.Name
	}
	if is := s.ext.Status.Install; is != nil {
		return is.Bundle.Name
	}
	return s.bundle.CSV.Name
}

// version returns the version of the bundle according to the catalog.
func (s *run) version() string {
	if s.resolved.Bundle != nil {
		return s.resolved.Bundle.Version
	}
	if is := s.ext.Status.Install; is != nil {
		return is.Bundle.Version
	}
	return s.bundle.CSV.Spec.Version.String()
}

// remove deletes an object if it belongs to the lineage.
func (s *run) remove(ctx context.Context, obj *unstructured.Unstructured, how metav1.DeletionPropagation) error {
	live, err := apply.Live(ctx, s.executor.Account, obj)
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return client.IgnoreNotFound(err)
	}
	if why := s.owner.Check(live); why != nil {
		log.FromContext(ctx).Info("Keeping an object of an earlier version", "object", apply.Describe(obj), "reason", why.Error())
		return nil
	}
	if err := apply.Delete(ctx, s.executor.Account, live, client.PropagationPolicy(how)); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Removed", "object", apply.Describe(obj), "identity", s.identity.String())
	return nil
}

// removals returns the permissions that the removal of objects of earlier versions requires.
func (s *run) removals(ctx context.Context) ([]preflight.Need, error) {
	if is := s.memory.Get(s.key()).pass; is != nil && is.hash == s.hash && is.completed {
		return nil, nil
	}
	others, err := s.others(ctx)
	if err != nil {
		return nil, err
	}
	needs := make([]preflight.Need, 0, len(others))
	for _, obj := range others {
		own, err := s.isOwn(ctx, obj)
		if err != nil {
			return nil, err
		}
		if own {
			needs = append(needs, assess.Removal(obj, s.version()))
		}
	}
	converted, err := s.surplusConversions(ctx)
	for _, crd := range converted {
		needs = append(needs, assess.ResetNeed(crd.Name, s.version()))
	}
	return needs, err
}

// examined records which objects of earlier versions exist and belong to the lineage, for one desired state.
type examined struct {
	hash string
	own  map[string]bool
}

// isOwn reports whether an object of an earlier version exists and belongs to the lineage. Objects that this program watches are known
// to. The others are in the inventory, which is only a hint, so they are read as the identity, once for each desired state: an upgrade
// that waits sends no requests. What the identity may not read is not reported; if it is removed, the removal fails and is reported.
func (s *run) isOwn(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	if watchedByController(obj) != nil {
		return true, nil
	}
	key := keyOfKind(obj)
	is := s.memory.Get(s.key()).examined
	if own, known := is.own[key]; known && is.hash == s.hash {
		return own, nil
	}
	account, err := s.clientOf(ctx, s.identity)
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	if err == nil {
		err = account.Get(ctx, client.ObjectKeyFromObject(obj), live)
	}
	switch {
	case scoped.ReasonOf(err) != "":
		return false, nil // the identity cannot be used yet
	case client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err):
		return false, fmt.Errorf("read %s: %w", apply.Describe(obj), err)
	}
	own := err == nil && s.owner.Owns(live)
	s.memory.Change(s.key(), func(is *remembered) {
		if is.examined.own == nil || is.examined.hash != s.hash {
			is.examined = examined{hash: s.hash, own: map[string]bool{}}
		}
		is.examined.own[key] = own
	})
	return own, nil
}

// others returns the objects that earlier versions may have left behind: those in the inventory, and those in the cache with the
// mark of the lineage. It omits CustomResourceDefinitions, which are kept until the extension is deleted, because deleting a
// CustomResourceDefinition also deletes its custom resources.
func (s *run) others(ctx context.Context) ([]*unstructured.Unstructured, error) {
	wanted := map[string]bool{}
	for _, st := range s.steps {
		wanted[keyOfKind(st.Object)] = true
	}
	var out []*unstructured.Unstructured
	add := func(obj *unstructured.Unstructured) {
		if key := keyOfKind(obj); !wanted[key] {
			wanted[key] = true
			out = append(out, obj)
		}
	}
	marked, err := s.marked(ctx)
	if err != nil {
		return nil, err
	}
	for _, obj := range marked {
		add(obj)
	}
	recorded, err := s.recorded(ctx)
	if err != nil {
		return nil, err
	}
	for _, obj := range recorded {
		if watchedByController(obj) == nil { // marked lists all other kinds that are removed
			add(obj)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return strings.Compare(keyOfKind(a), keyOfKind(b)) })
	return out, nil
}

// recorded returns references to the objects in the inventory whose kinds the cluster serves.
func (s *run) recorded(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, o := range s.ext.Status.Inventory {
		mapping, err := s.lookups.Mapping(ctx, schema.GroupKind{Group: o.Group, Kind: o.Kind})
		if err != nil {
			return nil, err
		}
		if mapping != nil {
			out = append(out, apply.Reference(mapping.GroupVersionKind, o.Namespace, o.Name))
		}
	}
	return out, nil
}

// keyOfKind identifies an object regardless of its version.
func keyOfKind(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().GroupKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// marked returns the lineage's objects of the kinds that the controller identity watches, except CustomResourceDefinitions.
func (s *run) marked(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for list, kind := range map[client.ObjectList]schema.GroupVersionKind{
		&corev1.ServiceAccountList{}:     corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		&rbacv1.RoleList{}:               rbacv1.SchemeGroupVersion.WithKind("Role"),
		&rbacv1.RoleBindingList{}:        rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		&rbacv1.ClusterRoleList{}:        rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		&rbacv1.ClusterRoleBindingList{}: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),

		&apiregistrationv1.APIServiceList{}: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"),
	} {
		err := s.Client.List(ctx, list, s.owner.Marked(), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok && s.owner.Owns(obj) && obj.GetDeletionTimestamp() == nil {
				out = append(out, apply.Reference(kind, obj.GetNamespace(), obj.GetName()))
			}
			return nil
		})
		if err != nil {
			return nil, errors.New("unreachable: the function returns no error")
		}
	}
	return out, nil
}

// aboutKeptCRDs describes the CustomResourceDefinitions of the lineage that this version does not have. Those without an owner
// reference to the extension are not deleted together with it: an earlier extension kept them, or this extension is configured to
// keep them.
func (s *run) aboutKeptCRDs(ctx context.Context) ([]string, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := s.Client.List(ctx, list, s.owner.Marked(), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var owned, others []string
	for i := range list.Items {
		crd := &list.Items[i]
		isWanted := slices.ContainsFunc(s.steps, func(st step.Step) bool { return st.IsCRD() && st.Object.GetName() == crd.Name })
		switch {
		case isWanted || !s.owner.Owns(crd):
		case deployment.OwnedBy(crd, s.ext.UID):
			owned = append(owned, crd.Name)
		default:
			others = append(others, crd.Name)
		}
	}
	var out []string
	if slices.Sort(owned); len(owned) > 0 {
		out = append(out, "CustomResourceDefinitions of earlier versions are kept until the ClusterExtension is deleted: "+bundle.Named(owned))
	}
	if slices.Sort(others); len(others) > 0 {
		out = append(out, "CustomResourceDefinitions that this version does not have are kept, even when the ClusterExtension is deleted: "+bundle.Named(others))
	}
	return out, nil
}
