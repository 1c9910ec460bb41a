package clustercatalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/web"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
	"github.com/remit-olm/remit/test/env/registry"
)

// program runs the controller and the HTTPS server against a real API server, and returns an HTTP client that trusts the
// published CA.
func program(t *testing.T, c client.Client) *http.Client {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clustercatalog-"}}
	require.NoError(t, c.Create(t.Context(), namespace))
	mgr, err := ctrl.NewManager(controlplane.Shared(t).Config(), manager.Options{
		Scheme: c.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	images, err := image.New(image.Options{AllPlain: true})
	require.NoError(t, err)
	cache, err := disk.Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	server := web.New("https://" + names.ServiceCatalogContent + ".remit.svc")
	r, err := New(Options{Client: mgr.GetClient(), Store: &catalog.Store{}, Server: server, Images: images, Disk: cache})
	require.NoError(t, err)
	require.NoError(t, r.SetupWithManager(mgr))
	certificates := &web.Certificates{Hosts: []string{names.ServiceCatalogContent + ".remit.svc"}, Publish: PublishCA(c, namespace.Name)}
	listening, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := &web.Listener{Handler: server, Certificate: certificates.Get}
	require.NoError(t, mgr.Add(certificates))
	require.NoError(t, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return listener.Serve(ctx, listening) })))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		_ = c.Delete(context.Background(), namespace)
	})
	roots := x509.NewCertPool()
	require.EventuallyWithT(t, func(t2 *assert.CollectT) {
		config := &corev1.ConfigMap{}
		if assert.NoError(t2, c.Get(t.Context(), types.NamespacedName{Namespace: namespace.Name, Name: names.ConfigMapCatalogContentCA}, config)) {
			assert.True(t2, roots.AppendCertsFromPEM([]byte(config.Data[names.KeyCA])))
		}
	}, time.Minute, 50*time.Millisecond)
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, listening.Addr().String())
		},
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
}

// The test follows a ClusterCatalog from its creation to its deletion, as a client that reads its content.
func TestAClusterCatalogOnAnAPIServer(t *testing.T) {
	c := crds.Install(t, controlplane.Shared(t).Config())
	content := program(t, c)
	images := registry.New(t)
	made, err := registry.Catalog(fstest.MapFS{"a.json": {Data: []byte(packageA)}})
	require.NoError(t, err)
	ref, _, err := images.Push("catalog:v1", made)
	require.NoError(t, err)

	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}
	require.NoError(t, c.Create(t.Context(), k))
	t.Cleanup(func() { _ = c.Delete(context.Background(), k) })
	await := func(kind, reason string) {
		t.Helper()
		require.EventuallyWithT(t, func(t2 *assert.CollectT) {
			if !assert.NoError(t2, c.Get(t.Context(), client.ObjectKeyFromObject(k), k)) {
				return
			}
			if got := meta.FindStatusCondition(k.Status.Conditions, kind); assert.NotNil(t2, got) {
				assert.Equal(t2, reason, got.Reason, got.Message)
			}
		}, time.Minute, 50*time.Millisecond)
	}
	await(olmv1.TypeServing, olmv1.ReasonAvailable)
	require.Equal(t, k.Name, k.Labels[olmv1.LabelMetadataName])
	base := k.Status.URLs.Base
	get := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		require.NoError(t, err)
		got, err := content.Do(request)
		require.NoError(t, err)
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		return got.StatusCode, string(text)
	}
	status, text := get("/api/v1/metas?schema=olm.package")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, `{"schema":"olm.package","name":"a","defaultChannel":"stable"}`+"\n", text)

	before := k.DeepCopy()
	k.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	require.NoError(t, c.Patch(t.Context(), k, client.MergeFrom(before)))
	await(olmv1.TypeServing, olmv1.ReasonUserSpecifiedUnavailable)
	status, _ = get("/api/v1/all")
	require.Equal(t, http.StatusNotFound, status)
	require.Nil(t, k.Status.URLs)

	before = k.DeepCopy()
	k.Spec.AvailabilityMode = olmv1.AvailabilityModeAvailable
	require.NoError(t, c.Patch(t.Context(), k, client.MergeFrom(before)))
	await(olmv1.TypeServing, olmv1.ReasonAvailable)
	require.NoError(t, c.Delete(t.Context(), k))
	require.Eventually(t, func() bool {
		status, _ := get("/api/v1/all")
		return status == http.StatusNotFound
	}, time.Minute, 50*time.Millisecond)
}
