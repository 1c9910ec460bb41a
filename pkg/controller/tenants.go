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

// tenants reads the Secrets and ConfigMaps that CatalogSources name. In the global catalog namespace, whose authors act
// on behalf of the whole cluster, it acts as the controller identity, which is allowed to read them only in this
// namespace. In other namespaces, it acts as the namespace's account (docs/adr/0001, docs/adr/0026).
type tenants struct {
	mgr        ctrl.Manager
	accounts   *scoped.Clients
	enrollment *Enrollment
	options    CatalogOptions
}

func (t *tenants) isGlobal(namespace string) bool {
	return namespace == t.options.GlobalCatalogNamespace
}

func (t *tenants) account(ctx context.Context, namespace string) (scoped.Account, error) {
	account, _, err := t.options.Default.Lookup(t.mgr.GetClient()).Account(ctx, namespace)
	return account, err
}

// reader returns the client that reads objects of tenants in a namespace. It also looks up the account's rules, so that a
// grant wakes the CatalogSources that are waiting for it.
func (t *tenants) reader(ctx context.Context, listers rbac.Listers, namespace string) (client.Reader, error) {
	if t.isGlobal(namespace) {
		return t.mgr.GetAPIReader(), nil
	}
	account, err := t.account(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if err := t.enrollment.Own(listers, account); err != nil {
		return nil, err
	}
	// The result is not needed: the lookup is only tracked, and the API server authorizes the read.
	_, _ = listers.EffectiveRules(rbac.ServiceAccount(account.Namespace, account.Name), namespace)
	return t.accounts.For(ctx, account)
}

// readSecret reads a pull secret.
func (t *tenants) readSecret(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.Secret, error) {
	reader, err := t.reader(ctx, listers, key.Namespace)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	return secret, reader.Get(ctx, key, secret)
}

// readConfigMap reads the ConfigMap of a catalog.
func (t *tenants) readConfigMap(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.ConfigMap, error) {
	reader, err := t.reader(ctx, listers, key.Namespace)
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{}
	return cm, reader.Get(ctx, key, cm)
}

// watchSecret watches the metadata of a tenant's pull secret, and calls changed once when its resource version differs
// from the given one or the secret is deleted. It returns immediately if the account is not allowed to watch the
// secret. It does not watch secrets of the global catalog namespace, because the controller identity is only allowed to
// get them by name.
func (t *tenants) watchSecret(ctx context.Context, key types.NamespacedName, version string, changed func()) {
	if t.isGlobal(key.Namespace) {
		return
	}
	account, err := t.account(ctx, key.Namespace)
	if err != nil {
		return
	}
	reader, err := t.accounts.ForWatch(ctx, account)
	if err != nil {
		return
	}
	events, err := watchMetadata(ctx, reader, "Secret", key)
	if err != nil {
		return // the account is not allowed to watch, or a request failed; the next retry reads the secret again
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

// watchConfigMap watches the metadata of one ConfigMap. If the account is not enrolled or not allowed to watch the
// ConfigMap, it returns nil without sending a request.
func (t *tenants) watchConfigMap(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error) {
	watcher, err := t.configMapWatcher(ctx, listers, key)
	if err != nil || watcher == nil {
		return nil, err
	}
	return watchMetadata(ctx, watcher, "ConfigMap", key)
}

func (t *tenants) configMapWatcher(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (client.WithWatch, error) {
	if t.isGlobal(key.Namespace) {
		return client.NewWithWatch(t.mgr.GetConfig(), client.Options{HTTPClient: t.mgr.GetHTTPClient(), Scheme: t.mgr.GetScheme(), Mapper: t.mgr.GetRESTMapper()})
	}
	account, err := t.account(ctx, key.Namespace)
	if err == nil {
		err = t.enrollment.Own(listers, account)
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
	return t.accounts.ForWatch(ctx, account)
}

// watchMetadata watches the metadata of one object of the core group.
func watchMetadata(ctx context.Context, watcher client.WithWatch, kind string, key types.NamespacedName) (watch.Interface, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	events, err := watcher.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		return nil, fmt.Errorf("watch %s %s: %w", kind, key, err)
	}
	return events, nil
}
