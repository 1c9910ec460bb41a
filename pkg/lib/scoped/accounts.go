package scoped

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceAccounts returns the names of the ServiceAccounts in a namespace, sorted. r should be a cache.
func ServiceAccounts(ctx context.Context, r client.Reader, namespace string) ([]string, error) {
	list := &corev1.ServiceAccountList{}
	if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ServiceAccounts of namespace %q: %w", namespace, err)
	}
	out := make([]string, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	slices.Sort(out)
	return out, nil
}
