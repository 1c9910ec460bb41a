package kit

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// LineageIndex is the index of objects by their lineage label: its key is the first half of the mark, which older objects have
// in common with newer ones (names.ShortMark). It does not contain objects without the label.
const LineageIndex = "remit.dev/lineage"

// OwnerNamespaceIndex is the index of roles, bindings and webhook configurations by the namespace of the operator that their labels
// name as their owner.
const OwnerNamespaceIndex = "remit.dev/owner-namespace"

// RBACLists returns lists of the kinds of roles and bindings, in the order of removal: bindings first.
func RBACLists() []client.ObjectList {
	return []client.ObjectList{
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{},
	}
}

// HookLists returns lists of the kinds of webhook configurations.
func HookLists() []client.ObjectList {
	return []client.ObjectList{&admissionregistrationv1.ValidatingWebhookConfigurationList{}, &admissionregistrationv1.MutatingWebhookConfigurationList{}}
}

// IndexLineage adds LineageIndex for the kinds of objects that an install can create outside its namespace, and
// OwnerNamespaceIndex. A manager's cache must contain the indexes once.
func IndexLineage(ctx context.Context, indexer client.FieldIndexer) error {
	mark := func(obj client.Object) []string {
		if mark := obj.GetLabels()[names.LabelLineage]; mark != "" {
			return []string{names.ShortMark(mark)}
		}
		return nil
	}
	for _, obj := range []client.Object{
		&rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.Role{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		&apiregistrationv1.APIService{}, &apiextensionsv1.CustomResourceDefinition{},
	} {
		if err := indexer.IndexField(ctx, obj, LineageIndex, mark); err != nil {
			return fmt.Errorf("index %T: %w", obj, err)
		}
	}
	return IndexOwners(ctx, indexer)
}

// IndexOwners adds OwnerNamespaceIndex.
func IndexOwners(ctx context.Context, indexer client.FieldIndexer) error {
	owner := func(obj client.Object) []string {
		if namespace := obj.GetLabels()[names.LabelOwnerNamespace]; namespace != "" {
			return []string{namespace}
		}
		return nil
	}
	for _, obj := range []client.Object{
		&rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.Role{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
	} {
		if err := indexer.IndexField(ctx, obj, OwnerNamespaceIndex, owner); err != nil {
			return fmt.Errorf("index %T: %w", obj, err)
		}
	}
	return nil
}
