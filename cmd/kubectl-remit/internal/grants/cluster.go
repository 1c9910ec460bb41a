package grants

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// pageSize is how many objects one request of a list returns.
const pageSize = 500

// Cluster reads a cluster's RBAC as the user of the client: what counts in the whole cluster and in the
// namespaces. Where the user may not read that, the API server is asked about each rule instead.
func Cluster(ctx context.Context, c client.Client, account types.NamespacedName, namespaces []string) (Source, error) {
	s := newStore()
	err := s.fill(ctx, c, namespaces)
	if apierrors.IsForbidden(err) {
		return newReviewer(ctx, c, account, err)
	}
	if err != nil {
		return nil, err
	}
	return Listed(s.listers(), account), nil
}

// Read lists a cluster's RBAC as the user of the client: what counts in the whole cluster and in the
// namespaces, or in all where these are nil.
func Read(ctx context.Context, c client.Client, namespaces []string) (rbac.Listers, error) {
	s := newStore()
	err := s.fill(ctx, c, namespaces)
	if err == nil && namespaces == nil {
		err = s.fillNamespace(ctx, c, metav1.NamespaceAll)
	}
	return s.listers(), err
}

func (s store) fill(ctx context.Context, c client.Client, namespaces []string) error {
	if err := s.list(ctx, c, &rbacv1.ClusterRoleList{}, rbac.ClusterScope); err != nil {
		return err
	}
	if err := s.list(ctx, c, &rbacv1.ClusterRoleBindingList{}, rbac.ClusterScope); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if namespace == rbac.ClusterScope {
			continue
		}
		if err := s.fillNamespace(ctx, c, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (s store) fillNamespace(ctx context.Context, c client.Client, namespace string) error {
	if err := s.list(ctx, c, &rbacv1.RoleList{}, namespace); err != nil {
		return err
	}
	return s.list(ctx, c, &rbacv1.RoleBindingList{}, namespace)
}

// list reads all pages of one kind.
func (s store) list(ctx context.Context, c client.Client, list client.ObjectList, namespace string) error {
	for {
		options := &client.ListOptions{Namespace: namespace, Limit: pageSize, Continue: list.GetContinue()}
		if err := c.List(ctx, list, options); err != nil {
			return fmt.Errorf("read RBAC: %w", err)
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			index, err := s.of(obj)
			if err != nil {
				return err
			}
			return index.Add(obj.DeepCopyObject())
		})
		if err != nil || list.GetContinue() == "" {
			return err
		}
	}
}

// Namespaces are those of an install, without repetition.
func Namespaces(own string, targets []string) []string {
	out := append([]string{own}, targets...)
	slices.Sort(out)
	return slices.Compact(out)
}
