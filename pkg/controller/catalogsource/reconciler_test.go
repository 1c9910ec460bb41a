package catalogsource

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	goodCatalog = `
schema: olm.package
name: a
defaultChannel: stable
---
schema: olm.channel
package: a
name: stable
entries: [{name: a.v1}]
---
schema: olm.bundle
package: a
name: a.v1
`
	otherCatalog = goodCatalog + `
---
schema: olm.bundle
package: a
name: a.v2
`
)

// world is a Reconciler with a fake API server.
type world struct {
	*Reconciler
	client.Client
	writes int
	woken  chan types.NamespacedName
	clock  *clocktesting.FakeClock
	// unread is the error returned when the ConfigMap of a catalog is read.
	unread error
}

func given(t *testing.T, directories map[string]string, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	w := &world{woken: make(chan types.NamespacedName, 100)}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&operatorsv1alpha1.CatalogSource{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string,
			obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			w.writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}}).Build()
	w.clock = clocktesting.NewFakeClock(now.Time)
	images, err := image.New(image.Options{Local: true})
	require.NoError(t, err)
	w.Reconciler, err = New(Options{
		Client:      w.Client,
		Cache:       w.Client,
		Live:        w.Client,
		Store:       &catalog.Store{},
		Directories: directories,
		// The tests watch only this namespace.
		GlobalNamespace: "remit",
		Clock:           w.clock,
		Images:          images,
		Disk:            onDisk(t),
		Secrets: func(ctx context.Context, _ rbac.Listers, key types.NamespacedName) (*corev1.Secret, error) {
			secret := &corev1.Secret{}
			return secret, w.Client.Get(ctx, key, secret)
		},
		ConfigMaps: func(ctx context.Context, _ rbac.Listers, key types.NamespacedName) (*corev1.ConfigMap, error) {
			if w.unread != nil {
				return nil, w.unread
			}
			cm := &corev1.ConfigMap{}
			return cm, w.Client.Get(ctx, key, cm)
		},
		ServerVersion: func() (string, error) { return "v1.36.3+k3s1", nil },
	})
	require.NoError(t, err)
	w.connections.wake = func(key types.NamespacedName) { w.woken <- key }
	w.images.wake = w.connections.wake
	return w
}

func onDisk(t *testing.T) *disk.Store {
	t.Helper()
	s, err := disk.Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func catalogSource(name string, spec operatorsv1alpha1.CatalogSourceSpec) *operatorsv1alpha1.CatalogSource {
	return &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: name}, Spec: spec}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "remit", Name: name}
}

// reconcile reconciles until nothing more is written, and returns the status.
func (w *world) reconcile(t *testing.T, name string) operatorsv1alpha1.CatalogSourceStatus {
	t.Helper()
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(name)})
	require.NoError(t, err)
	writes := w.writes
	_, err = w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(name)})
	require.NoError(t, err)
	require.Equal(t, writes, w.writes, "nothing is written when nothing changed")
	return w.status(t, name)
}

func (w *world) status(t *testing.T, name string) operatorsv1alpha1.CatalogSourceStatus {
	t.Helper()
	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, w.Get(t.Context(), key(name), cs))
	return cs.Status
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func requireReady(t *testing.T, s operatorsv1alpha1.CatalogSourceStatus) {
	t.Helper()
	require.Empty(t, s.Message)
	require.Empty(t, s.Reason)
	require.Equal(t, "grpc", s.RegistryServiceStatus.Protocol)
	require.False(t, s.RegistryServiceStatus.CreatedAt.IsZero())
	require.Equal(t, "READY", s.GRPCConnectionState.LastObservedState)
	require.False(t, s.GRPCConnectionState.LastConnectTime.IsZero())
}

func TestACatalogInADirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "catalog.yaml")
	write(t, file, goodCatalog)
	w := given(t, map[string]string{"img:1": dir},
		catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "img:1", Priority: 7}),
		catalogSource("twin", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "img:1"}))

	requireReady(t, w.reconcile(t, "cat"))
	snap, ok := w.Store.Get(key("cat"))
	require.True(t, ok)
	require.Equal(t, 7, snap.Priority)
	require.Equal(t, key("cat"), snap.Key)
	requireReady(t, w.reconcile(t, "twin"))

	write(t, file, "a: [")
	w.directories.all[0].version.Add(1)
	got := w.reconcile(t, "cat")
	require.Equal(t, operatorsv1alpha1.CatalogSourceRegistryServerError, got.Reason)
	require.Contains(t, got.Message, `file "a/catalog.yaml"`)
	require.Contains(t, got.Message, "the last good content ("+snap.Digest+") is still served")
	require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
	_, ok = w.Store.Get(key("cat"))
	require.True(t, ok)

	write(t, file, otherCatalog)
	w.directories.all[0].version.Add(1)
	requireReady(t, w.reconcile(t, "cat"))
	newer, _ := w.Store.Get(key("cat"))
	require.NotEqual(t, snap.Digest, newer.Digest)

	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, w.Get(t.Context(), key("cat"), cs))
	require.NoError(t, w.Delete(t.Context(), cs))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("cat")})
	require.NoError(t, err)
	_, ok = w.Store.Get(key("cat"))
	require.False(t, ok, "a deleted CatalogSource's content is withdrawn")
	require.True(t, w.Store.IsLoading(key("cat")), "nothing is known about another CatalogSource with this name")
	_, ok = w.Store.Get(key("twin"))
	require.True(t, ok)
}

// undecodable reads CatalogSources that this program cannot decode.
type undecodable struct{ client.Reader }

func (c undecodable) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Reader.Get(ctx, key, obj, opts...)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object["spec"] = "text"
	}
	return err
}

// These CatalogSources remain visible, but are not loaded again after a restart.
func TestACatalogThatWillNotBeLoadedIsUnavailable(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *world, *operatorsv1alpha1.CatalogSource){
		"it is being deleted, but has a finalizer": func(t *testing.T, w *world, cs *operatorsv1alpha1.CatalogSource) {
			require.NoError(t, w.Delete(t.Context(), cs))
		},
		"OLM manages it": func(t *testing.T, w *world, cs *operatorsv1alpha1.CatalogSource) {
			cs.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
			require.NoError(t, w.Update(t.Context(), cs))
		},
		"it cannot be decoded": func(_ *testing.T, w *world, _ *operatorsv1alpha1.CatalogSource) { w.Cache = undecodable{w.Cache} },
	} {
		t.Run(name, func(t *testing.T) {
			cs := catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "example.com/catalog"})
			cs.Finalizers = []string{"example.com/wait"}
			w := given(t, nil, cs)
			require.NoError(t, w.Get(t.Context(), key("cat"), cs))
			change(t, w, cs)
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("cat")})
			require.NoError(t, ignoreTerminal(err))
			require.False(t, w.Store.IsLoading(key("cat")))
		})
	}
}

func ignoreTerminal(err error) error {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		return nil
	}
	return err
}

func TestABrokenFileRemovesNoPackages(t *testing.T) {
	dir := t.TempDir()
	other := strings.NewReplacer("name: a", "name: b", "package: a", "package: b").Replace(goodCatalog)
	write(t, filepath.Join(dir, "a.yaml"), goodCatalog)
	write(t, filepath.Join(dir, "b.yaml"), other)
	w := given(t, map[string]string{"img:1": dir}, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "img:1"}))
	requireReady(t, w.reconcile(t, "cat"))
	reread := func() (operatorsv1alpha1.CatalogSourceStatus, []string) {
		w.directories.all[0].version.Add(1)
		status := w.reconcile(t, "cat")
		snap, ok := w.Store.Get(key("cat"))
		require.True(t, ok)
		return status, snap.PackageNames()
	}

	write(t, filepath.Join(dir, "README.md"), "Not a catalog")
	got, packages := reread()
	require.Equal(t, []string{"a", "b"}, packages)
	require.Equal(t, "READY", got.GRPCConnectionState.LastObservedState)
	require.Equal(t, operatorsv1alpha1.CatalogSourceRegistryServerError, got.Reason)
	require.Contains(t, got.Message, `file "README.md": `)
	require.Contains(t, got.Message, "the rest of the catalog is served")

	write(t, filepath.Join(dir, "b.yaml"), "schema: [")
	got, packages = reread()
	require.Equal(t, []string{"a", "b"}, packages)
	require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
	require.Contains(t, got.Message, `file "b.yaml": `)
	require.Contains(t, got.Message, "is still served")

	fresh := given(t, map[string]string{"img:1": dir}, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "img:1"}))
	require.Contains(t, fresh.reconcile(t, "cat").Message, `file "b.yaml": `)
	snap, ok := fresh.Store.Get(key("cat"))
	require.True(t, ok, "without previous content, the readable part is served")
	require.Equal(t, []string{"a"}, snap.PackageNames())
}

func TestReportsWhyACatalogCannotBeServed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spec   operatorsv1alpha1.CatalogSourceSpec
		reason operatorsv1alpha1.ConditionReason
		want   string
		state  string
	}{
		{"a missing directory", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "missing"},
			"RegistryServerError", `image "missing", directory "/does/not/exist"`, "TRANSIENT_FAILURE"},
		{"an invalid address", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Address: "unix:/x"},
			"RegistryServerError", `couldn't connect to registry - address "unix:/x"`, ""},
		{"a missing ConfigMap", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"},
			"ConfigMapError", `failed to get catalog config map c: `, ""},
		{"a spec without a source", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc"},
			"SpecInvalidError", "image and address unset: at least one must be set for sourcetype: grpc", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := given(t, map[string]string{"missing": "/does/not/exist"}, catalogSource("cat", tt.spec))
			got := w.reconcile(t, "cat")
			require.Equal(t, tt.reason, got.Reason)
			require.Contains(t, got.Message, tt.want)
			if tt.state == "" {
				require.Nil(t, got.GRPCConnectionState)
			} else {
				require.Equal(t, tt.state, got.GRPCConnectionState.LastObservedState)
			}
			_, ok := w.Store.Get(key("cat"))
			require.False(t, ok)
			require.False(t, w.Store.IsLoading(key("cat")))
		})
	}
}

func TestACatalogInAConfigMap(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "c", UID: "u"},
		Data: map[string]string{"catalog.yaml": goodCatalog}}
	w := given(t, nil, cm, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}))
	got := w.reconcile(t, "cat")
	requireReady(t, got)
	require.Equal(t, "c", got.ConfigMapResource.Name)
	require.Equal(t, types.UID("u"), got.ConfigMapResource.UID)

	require.NoError(t, w.Get(t.Context(), key("c"), cm))
	cm.Data = map[string]string{"catalog.yaml": "["}
	require.NoError(t, w.Update(t.Context(), cm))
	got = w.reconcile(t, "cat")
	require.Equal(t, operatorsv1alpha1.CatalogSourceConfigMapError, got.Reason)
	require.Contains(t, got.Message, "is still served")
	_, ok := w.Store.Get(key("cat"))
	require.True(t, ok)

	require.NoError(t, w.Delete(t.Context(), cm))
	require.Contains(t, w.reconcile(t, "cat").Message, "failed to get catalog config map c")
	_, ok = w.Store.Get(key("cat"))
	require.False(t, ok)
}

// registryServer serves one bundle.
type registryServer struct {
	api.UnimplementedRegistryServer
}

func (registryServer) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	return stream.Send(&api.Bundle{PackageName: "a", ChannelName: "stable", CsvName: "a.v1", Version: "1.0.0"})
}

func (registryServer) GetPackage(context.Context, *api.GetPackageRequest) (*api.Package, error) {
	return &api.Package{Name: "a", DefaultChannelName: "stable"}, nil
}

func listen(t *testing.T, address string) (string, *grpc.Server) {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	s := grpc.NewServer()
	api.RegisterRegistryServer(s, registryServer{})
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	return lis.Addr().String(), s
}

// until waits until the status shows the state. It reconciles whenever the connection wakes the controller.
func (w *world) until(t *testing.T, name, state string) operatorsv1alpha1.CatalogSourceStatus {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(name)})
		require.NoError(t, err)
		cs := &operatorsv1alpha1.CatalogSource{}
		require.NoError(t, w.Get(t.Context(), key(name), cs))
		if cs.Status.GRPCConnectionState.LastObservedState == state {
			return cs.Status
		}
		select {
		case <-w.woken:
		case <-deadline:
			require.Fail(t, "state not seen", "want %s, status is %+v", state, cs.Status.GRPCConnectionState)
		}
	}
}

func TestACatalogAtAnAddress(t *testing.T) {
	address, server := listen(t, "127.0.0.1:0")
	w := given(t, nil, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Address: address}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.connections.Start(ctx) }()

	got := w.until(t, "cat", "READY")
	requireReady(t, got)
	require.Equal(t, address, got.GRPCConnectionState.Address)
	_, ok := w.Store.Get(key("cat"))
	require.True(t, ok)

	server.Stop()
	got = w.until(t, "cat", "TRANSIENT_FAILURE")
	require.Contains(t, got.Message, "does not respond")
	_, ok = w.Store.Get(key("cat"))
	require.True(t, ok, "content is kept while the registry is unavailable")

	listen(t, address)
	requireReady(t, w.until(t, "cat", "READY"))

	cancel()
	require.NoError(t, <-done)
}

func TestNewValidatesItsOptions(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "required")
	c := fake.NewClientBuilder().Build()
	_, err = New(Options{Client: c, Cache: c, Live: c, ConfigMaps: func(context.Context, rbac.Listers, types.NamespacedName) (*corev1.ConfigMap, error) { return nil, nil }, Store: &catalog.Store{}, Images: &image.Client{}, Disk: onDisk(t), Directories: map[string]string{"img": ""}})
	require.ErrorContains(t, err, "both the image and the directory are required")
}
