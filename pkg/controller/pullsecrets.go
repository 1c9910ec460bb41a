package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// pullSecrets reads a pull secret. Those of the global catalog namespace, whose authors speak for the whole
// cluster, are read as self, which may in its own namespace only; a tenant's as the account of its namespace
// (security model, closed list 1).
func pullSecrets(mgr ctrl.Manager, accounts *scoped.Clients, o CatalogOptions) func(context.Context, types.NamespacedName) (*corev1.Secret, error) {
	return func(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
		reader := mgr.GetAPIReader()
		if key.Namespace != o.GlobalCatalogNamespace {
			account, _, err := scoped.Lookup{Reader: mgr.GetClient(), Default: o.Default}.Account(ctx, key.Namespace)
			if err != nil {
				return nil, err
			}
			if reader, err = accounts.For(ctx, account); err != nil {
				return nil, err
			}
		}
		secret := &corev1.Secret{}
		return secret, reader.Get(ctx, key, secret)
	}
}
