package catalogsource

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/operator-framework/api/crds"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// cluster is a namespace on a real API server with a running controller.
type cluster struct {
	client.Client
	store     *catalog.Store
	namespace string
}

func givenCluster(t *testing.T, directories map[string]string) *cluster {
	t.Helper()
	cp := controlplane.Shared(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	c, err := client.New(cp.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	for _, crd := range []client.Object{crds.CatalogSource(), crds.OperatorGroup()} {
		require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), crd)))
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "catalogsource-"}}
	require.NoError(t, c.Create(t.Context(), ns))
	out := &cluster{Client: c, store: &catalog.Store{}, namespace: ns.Name}
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		require.NoError(col, c.List(t.Context(), newObjects(), client.InNamespace(ns.Name)))
	}, time.Minute, 100*time.Millisecond, "the API is served")
	out.run(t, cp, scheme, directories)
	return out
}

// run starts a manager that is restricted to the test's namespace.
func (c *cluster) run(t *testing.T, cp *controlplane.Instance, scheme *runtime.Scheme, directories map[string]string) {
	t.Helper()
	mgr, err := ctrl.NewManager(cp.Config(), ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{c.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	images, err := image.New(image.Options{Local: true})
	require.NoError(t, err)
	watcher, err := client.NewWithWatch(cp.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	r, err := New(Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Store: c.store, Images: images, Disk: onDisk(t),
		GlobalNamespace: c.namespace, Directories: directories,
		ConfigMaps: func(ctx context.Context, _ rbac.Listers, key types.NamespacedName) (*corev1.ConfigMap, error) {
			cm := &corev1.ConfigMap{}
			return cm, watcher.Get(ctx, key, cm)
		},
		WatchConfigMap: func(ctx context.Context, _ rbac.Listers, key types.NamespacedName) (watch.Interface, error) {
			return watcher.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
		},
	})
	require.NoError(t, err)
	require.NoError(t, r.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// create creates a CatalogSource from a spec that the typed object cannot represent.
func (c *cluster) create(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	u := newObject()
	u.SetNamespace(c.namespace)
	u.SetName(name)
	u.Object["spec"] = spec
	require.NoError(t, c.Create(t.Context(), u))
}

func (c *cluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// eventually waits until a catalog has the given reason, connection state and number of bundles.
func (c *cluster) eventually(t *testing.T, name, reason, state string, bundles int) {
	t.Helper()
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		u := newObject()
		require.NoError(col, c.Get(t.Context(), c.key(name), u))
		gotReason, _, _ := unstructured.NestedString(u.Object, "status", "reason")
		message, _, _ := unstructured.NestedString(u.Object, "status", "message")
		gotState, _, _ := unstructured.NestedString(u.Object, "status", "connectionState", "lastObservedState")
		require.Equal(col, reason, gotReason, message)
		require.Equal(col, state, gotState, message)
		snap, ok := c.store.Get(c.key(name))
		require.Equal(col, bundles > 0, ok)
		if ok {
			require.Len(col, snap.Packages["a"].Bundles, bundles)
		}
	}, time.Minute, 50*time.Millisecond)
}

func TestCatalogSourcesOnAnAPIServer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "catalog.yaml")
	write(t, file, goodCatalog)
	address, _ := listen(t, "127.0.0.1:0")
	c := givenCluster(t, map[string]string{"img:1": dir})

	t.Run("an empty updateStrategy is harmless, and a changed directory is read again", func(t *testing.T) {
		c.create(t, "dir", map[string]any{"sourceType": "grpc", "image": "img:1", "updateStrategy": map[string]any{}})
		c.eventually(t, "dir", "", "READY", 1)
		write(t, file, otherCatalog)
		c.eventually(t, "dir", "", "READY", 2)
		write(t, file, "[")
		c.eventually(t, "dir", "RegistryServerError", "TRANSIENT_FAILURE", 2)
	})
	t.Run("a registry is listed", func(t *testing.T) {
		c.create(t, "address", map[string]any{"sourceType": "grpc", "address": address})
		c.eventually(t, "address", "", "READY", 1)
	})
	t.Run("a ConfigMap can be created later and changed", func(t *testing.T) {
		c.create(t, "internal", map[string]any{"sourceType": "internal", "configMap": "content"})
		c.eventually(t, "internal", "ConfigMapError", "", 0)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "content"},
			Data: map[string]string{"a.yaml": goodCatalog}}
		require.NoError(t, c.Create(t.Context(), cm))
		c.eventually(t, "internal", "", "READY", 1)
		cm.Data["a.yaml"] = otherCatalog
		require.NoError(t, c.Update(t.Context(), cm))
		c.eventually(t, "internal", "", "READY", 2)
		require.Empty(t, cm.OwnerReferences)
	})
	t.Run("an invalid poll interval is reported, and the catalog is served", func(t *testing.T) {
		write(t, file, goodCatalog)
		c.create(t, "poll", map[string]any{"sourceType": "grpc", "image": "img:1",
			"updateStrategy": map[string]any{"registryPoll": map[string]any{"interval": "often"}}})
		c.eventually(t, "poll", "InvalidIntervalError", "READY", 1)
	})
	t.Run("a deleted CatalogSource is withdrawn", func(t *testing.T) {
		u := newObject()
		require.NoError(t, c.Get(t.Context(), c.key("address"), u))
		require.NoError(t, c.Delete(t.Context(), u))
		require.EventuallyWithT(t, func(col *assert.CollectT) {
			_, ok := c.store.Get(c.key("address"))
			require.False(col, ok)
		}, time.Minute, 50*time.Millisecond)
	})
}
