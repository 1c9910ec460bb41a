package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

type configMapWatcher = func(context.Context, rbac.Listers, types.NamespacedName) (watch.Interface, error)

// watchConfigMap returns a function that watches the metadata of one ConfigMap: as the controller identity in the global
// catalog namespace, and as the account of its namespace in all others, because the controller identity does not watch
// tenants' ConfigMaps (docs/adr/0026). The watch is nil, and no request is sent, if the account is not enrolled or is not
// allowed to watch.
func watchConfigMap(mgr ctrl.Manager, accounts *scoped.Clients, enrollment *Enrollment, o CatalogOptions) configMapWatcher {
	watcher := func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (client.WithWatch, error) {
		if key.Namespace == o.GlobalCatalogNamespace {
			return client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
		}
		account, _, err := o.Default.Lookup(mgr.GetClient()).Account(ctx, key.Namespace)
		if err == nil {
			err = enrollment.Own(listers, account)
		}
		if scoped.ReasonOf(err) != "" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		rules, err := listers.EffectiveRules(rbac.ServiceAccount(account.Namespace, account.Name), key.Namespace)
		if err == nil && len(rbac.Missing(rules, []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{key.Name}, Verbs: []string{"watch"},
		}})) > 0 {
			return nil, nil
		}
		return accounts.ForWatch(ctx, account)
	}
	return func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error) {
		as, err := watcher(ctx, listers, key)
		if err != nil || as == nil {
			return nil, err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		events, err := as.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
		if err != nil {
			return nil, fmt.Errorf("watch ConfigMap %s: %w", key, err)
		}
		return events, nil
	}
}
