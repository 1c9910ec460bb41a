package catalogsource

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// tenantServers is a manager.Runnable that provides the servers of namespaces other than the global catalog namespace.
// They act as the installation's default account, and only where a namespace's OperatorGroup uses this account: the API
// server has checked that the author of this OperatorGroup may impersonate it (docs/adr/0017).
type tenantServers struct {
	*Options
	*managed
	kit.Background
	notify kit.Notify
	// watchServices makes Services of other owners wake the CatalogSources in their namespace.
	watchServices func(context.Context) error

	mu sync.Mutex
	// current contains the servers that act as the default account, and account is the UID of that account. end stops their cache.
	// All are zero until the first call of forAccount.
	account types.UID
	current *servers
	end     func()
}

// refused is the reason why no registry runs in a tenant's namespace. A change to the OperatorGroup or the default account wakes
// the CatalogSource.
type refused struct{ why string }

// Error implements error.
func (r refused) Error() string { return r.why }

// forNamespace returns the servers of a namespace, or a refused error. It reads the OperatorGroup and the account without a
// cache, because writes depend on them.
func (t *tenantServers) forNamespace(ctx context.Context, namespace string) (*servers, error) {
	if t.Accounts == nil || t.Default.Account.Name == "" {
		return nil, refused{fmt.Sprintf("Such an image is a registry, and registries run only in the global catalog namespace %q. "+
			"Use an image with a file-based catalog (see opm render), or ask for the CatalogSource to be created in namespace %q", t.GlobalNamespace, t.GlobalNamespace)}
	}
	where := fmt.Sprintf("Such an image is a registry, and outside the global catalog namespace %q, registries run only as the installation's default account", t.GlobalNamespace)
	account, og, err := t.Default.Lookup(t.Live).Account(ctx, namespace)
	switch {
	case scoped.ReasonOf(err) != "":
		return nil, refused{fmt.Sprintf("%s: %v", where, err)}
	case err != nil:
		return nil, err
	case !account.Default:
		return nil, refused{fmt.Sprintf("%s, but OperatorGroup %s/%s names ServiceAccount %s. Use an image with a file-based catalog (see opm render)",
			where, og.Namespace, og.Name, account.Name)}
	}
	return t.forAccount(ctx, account)
}

// forAccount returns the servers of the default account. It creates them for the first call, and again if the account was
// recreated.
func (t *tenantServers) forAccount(ctx context.Context, account scoped.Account) (*servers, error) {
	own, err := t.Accounts.For(ctx, account)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.account == account.UID {
		return t.current, nil
	}
	cached, err := t.newCache(account, own)
	if err != nil {
		return nil, err
	}
	if t.end != nil {
		t.end()
	}
	t.end = t.Launch(func(ctx context.Context) { _ = cached.Start(ctx) }) // Start only fails if it is called twice
	lazy := &lazyCache{Cache: cached, notify: t.notify, check: canListPods(own, ""), missing: []client.Object{&corev1.Pod{}, &corev1.Service{}}}
	watch := func(ctx context.Context) error {
		if err := lazy.watch(ctx); err != nil {
			return err
		}
		return t.watchServices(ctx)
	}
	t.account, t.current = account.UID, &servers{managed: t.managed, byTag: true, client: own, live: own, cached: lazy, watch: watch}
	return t.current, nil
}

// newCache returns a cache of the registries' Pods and Services in all namespaces.
func (t *tenantServers) newCache(account scoped.Account, own client.Client) (cache.Cache, error) {
	config, httpClient, err := t.Accounts.Connect(account.Identity())
	if err != nil {
		return nil, err
	}
	out, err := cache.New(config, cache.Options{
		HTTPClient: httpClient, Scheme: own.Scheme(), Mapper: own.RESTMapper(), DefaultTransform: stripRegistry,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: hasLabel(names.LabelCatalogSource)}, &corev1.Service{}: {Label: hasLabel(names.LabelServiceSpecHash)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create a cache of registries: %w", err)
	}
	return out, nil
}

// hasLabel returns a selector of the objects that have a label.
func hasLabel(key string) labels.Selector {
	required, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // the keys are constants
	}
	return labels.NewSelector().Add(*required)
}

// canListPods returns a function that returns an error if the registries' Pods in a namespace cannot be listed.
func canListPods(live client.Reader, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := live.List(ctx, &corev1.PodList{}, client.InNamespace(namespace), client.HasLabels{names.LabelCatalogSource}, client.Limit(1)); err != nil {
			return fmt.Errorf("list Pods in %s: %w", cmp.Or(namespace, "all namespaces"), err)
		}
		return nil
	}
}

// serversOf returns the servers that run, or may have run, the registry of a CatalogSource. image is empty if its image
// is not known to be a registry. The result is nil if there is nothing to run and nothing to remove.
func (r *Reconciler) serversOf(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, image string) (*servers, error) {
	if image == "" {
		exists, err := r.servers.mayExist(ctx, cs)
		if err != nil || !exists {
			return nil, err
		}
	}
	if cs.Namespace == r.GlobalNamespace {
		return r.servers, nil
	}
	at, err := r.tenants.forNamespace(ctx, cs.Namespace)
	if kit.Is[refused](err) {
		if image == "" {
			return nil, nil
		}
		return nil, refused{fmt.Sprintf("image %q: %v. %v", image, layer.ErrNoCatalog, err)}
	}
	return at, err
}
