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

// pullSecrets returns a function that reads a pull secret. In the global catalog namespace, whose authors act for the whole
// cluster, it reads as the controller identity, which is allowed to do so in this namespace only. A tenant's secret
// is read as the account of its namespace (security model, closed list 1). The account's rules are looked up as well, so
// that a grant wakes the CatalogSources that wait for it.
func pullSecrets(mgr ctrl.Manager, accounts *scoped.Clients, enrollment *Enrollment, o CatalogOptions) secretReader {
	return func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.Secret, error) {
		reader := mgr.GetAPIReader()
		if key.Namespace != o.GlobalCatalogNamespace {
			account, _, err := o.Default.Lookup(mgr.GetClient()).Account(ctx, key.Namespace)
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

// watchPullSecret returns a function that watches the metadata of a tenant's pull secret as the account of its namespace, if
// that is allowed to. Secrets of the global catalog namespace are not watched: the controller identity may only get them by
// name.
func watchPullSecret(mgr ctrl.Manager, accounts *scoped.Clients, o CatalogOptions) func(context.Context, types.NamespacedName, string, func()) {
	return func(ctx context.Context, key types.NamespacedName, version string, changed func()) {
		if key.Namespace == o.GlobalCatalogNamespace {
			return
		}
		account, _, err := o.Default.Lookup(mgr.GetClient()).Account(ctx, key.Namespace)
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
			return // the account is not allowed to watch, or a request failed; the secret is read again at the next retry
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
