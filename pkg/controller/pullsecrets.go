package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

type secretReader = func(context.Context, rbac.Listers, types.NamespacedName) (*corev1.Secret, error)

// pullSecrets reads a pull secret. Those of the global catalog namespace, whose authors speak for the whole
// cluster, are read as self, which may in its own namespace only; a tenant's as the account of its namespace
// (security model, closed list 1). What the account holds is looked up too, so that a grant wakes whoever waits for it.
func pullSecrets(mgr ctrl.Manager, accounts *scoped.Clients, enrollment *Enrollment, o CatalogOptions) secretReader {
	return func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.Secret, error) {
		reader := mgr.GetAPIReader()
		if key.Namespace != o.GlobalCatalogNamespace {
			account, _, err := scoped.Lookup{Reader: mgr.GetClient(), Default: o.Default}.Account(ctx, key.Namespace)
			if err != nil {
				return nil, err
			}
			if err := enrollment.Own(listers, account); err != nil {
				return nil, err
			}
			_, _ = listers.EffectiveRules(rbac.ServiceAccount(account.Namespace, account.Name), key.Namespace) // the API server decides
			if reader, err = accounts.For(ctx, account); err != nil {
				return nil, err
			}
		}
		secret := &corev1.Secret{}
		return secret, reader.Get(ctx, key, secret)
	}
}

// watchPullSecret watches a tenant's pull secret as the account of its namespace, where that may; what is in it is not
// sent. Of the global catalog namespace none is watched: self may get them by name, and no more.
func watchPullSecret(mgr ctrl.Manager, accounts *scoped.Clients, o CatalogOptions) func(context.Context, types.NamespacedName, string, func()) {
	return func(ctx context.Context, key types.NamespacedName, version string, changed func()) {
		if key.Namespace == o.GlobalCatalogNamespace {
			return
		}
		account, _, err := scoped.Lookup{Reader: mgr.GetClient(), Default: o.Default}.Account(ctx, key.Namespace)
		if err != nil {
			return
		}
		reader, err := accounts.ForWatch(ctx, account)
		if err != nil {
			return
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		events, err := reader.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
		if err != nil {
			return // it may not, or cannot now: the next try comes all the same
		}
		defer events.Stop()
		for event := range events.ResultChan() {
			secret, ok := event.Object.(*metav1.PartialObjectMetadata)
			switch {
			case !ok:
				return // the watch has failed
			case event.Type == watch.Deleted || event.Type != watch.Bookmark && secret.ResourceVersion != version:
				changed()
				return
			}
		}
	}
}
