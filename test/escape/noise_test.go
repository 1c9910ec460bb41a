package escape

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/forge"
)

// trickling is a registry that occasionally sends a bundle and never ends the stream. After each bundle, it sends a
// signal on the channel begun.
type trickling struct {
	hostileRegistry
	begun chan struct{}
}

// ListBundles implements api.RegistryServer.
func (r *trickling) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for n := 0; ; n++ {
		if err := stream.Send(entry(fmt.Sprintf("b%d", n), "")); err != nil {
			return err
		}
		select {
		case r.begun <- struct{}{}:
		default:
		}
		select {
		case <-every.C:
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		}
	}
}

// other creates a namespace for another tenant of this row and returns the tenant.
func (s *scene) other(suffix string) *env.Tenant {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + suffix}}
	s.Create(namespace)
	s.T.Cleanup(func() { leave(s.T, namespace.Name) })
	return &env.Tenant{T: s.T, Cluster: s.Cluster, Namespace: namespace.Name}
}

// catalogAt creates a CatalogSource whose registry has the given address.
func catalogAt(tn *env.Tenant, name, address string) {
	tn.T.Helper()
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta(name),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: address}})
}

// requireReady fails the test if a catalog does not become ready in time.
func requireReady(tn *env.Tenant, name string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get(name, cs))
		if assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, "READY", cs.Status.GRPCConnectionState.LastObservedState, cs.Status.Message)
		}
	})
}

// besideTrickling asserts that a neighbor's catalog becomes ready while twenty trickling registries, spread over the
// given number of namespaces, are being read.
func besideTrickling(s *scene, namespaces int) {
	s.T.Helper()
	hostile := &trickling{begun: make(chan struct{}, 1)}
	for n := range namespaces {
		tn := s.Tenant
		if n > 0 {
			tn = s.other(fmt.Sprint(n))
		}
		where := tn.Serve("trickling", hostile)
		for i := range 20 / namespaces {
			catalogAt(tn, fmt.Sprintf("trickling-%d", i), where)
		}
	}
	for range 8 {
		await(s, hostile.begun, "the registries must be listed")
	}
	neighbor := s.other("neighbor")
	catalogAt(neighbor, "catalog", neighbor.Serve("registry", &hostileRegistry{send: []*api.Bundle{entry("a", "")}}))
	requireReady(neighbor, "catalog")
}

// handMade creates a Service in the scene's namespace, with an EndpointSlice that routes its traffic to another
// tenant's Pods. It returns the Service's address.
func (s *scene) handMade(spec corev1.ServiceSpec) string {
	s.T.Helper()
	theirs := s.other("theirs")
	theirs.Serve("registry", &hostileRegistry{send: []*api.Bundle{entry("a", "")}})
	slice := &discoveryv1.EndpointSlice{}
	require.NoError(s.T, theirs.Get("registry", slice))
	spec.Ports = []corev1.ServicePort{{Name: "grpc", Port: *slice.Ports[0].Port}}
	s.Create(&corev1.Service{ObjectMeta: s.Meta("registry"), Spec: spec})
	made := &discoveryv1.EndpointSlice{ObjectMeta: s.Meta("registry"), AddressType: slice.AddressType, Endpoints: slice.Endpoints, Ports: slice.Ports}
	made.Labels = map[string]string{discoveryv1.LabelServiceName: "registry"}
	s.Create(made)
	return fmt.Sprintf("registry.%s.svc:%d", s.Namespace, *slice.Ports[0].Port)
}

func noise() []row {
	return []row{
		{number: "170", title: "twenty registries that trickle, and a neighbor's catalog", holds: p0(), play: func(s *scene) { besideTrickling(s, 1) }},
		{number: "170a", title: "twenty registries that trickle, in five namespaces, and a neighbor's catalog", holds: p0(), play: func(s *scene) { besideTrickling(s, 5) }},
		{number: "170b", title: "twenty images that trickle, and a neighbor's catalog", holds: p0(), play: func(s *scene) {
			ref, asked := s.push(s.layerOf("configs/catalog.yaml=x")), make(chan struct{}, 1)
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				trickle(w, r, asked)
				return true
			})
			for i := range 20 {
				s.catalogSourceOf(s.Tenant, fmt.Sprintf("trickling-%d", i), ref)
			}
			await(s, asked, "the images must be pulled")
			neighbor := s.other("neighbor")
			layer, err := registry.Layer(fstest.MapFS{"catalog.yaml": {Data: []byte(forge.Catalog(bundleOf(csv())))}}, "configs")
			require.NoError(s.T, err)
			s.catalogSourceOf(neighbor, "catalog", pushed(s, neighbor.Namespace, layer))
			requireReady(neighbor, "catalog")
		}},
		{number: "171", title: "a catalog at a Service whose endpoints its author created", holds: p0(), play: func(s *scene) {
			s.unreachable(s.handMade(corev1.ServiceSpec{}), "has no spec.selector")
		}},
		{number: "171a", title: "a catalog at a headless Service whose endpoints its author created", holds: p0(), play: func(s *scene) {
			s.unreachable(s.handMade(corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "b"}}), "headless")
		}},
		{number: "171b", title: "a catalog at a Service whose selector is removed", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			catalogAt(s.Tenant, "catalog", s.Serve("registry", &hostileRegistry{send: []*api.Bundle{entry("a", "")}}))
			requireReady(s.Tenant, "catalog")
			service := &corev1.Service{}
			require.NoError(s.T, s.Get("registry", service))
			service.Spec.Selector = nil
			require.NoError(s.T, cluster.Client.Update(s.T.Context(), service))
			s.catalogSays("has no spec.selector")
			s.subscribe()
			s.refused("its content is not available")
		}},
		{number: "171c", title: "a catalog image at a private address", holds: p0(), play: func(s *scene) {
			s.catalogImage("10.96.0.1/catalog:v1", "private address", "--private-registry")
		}},
		{number: "171d", title: "a bundle image at a private address", holds: p0(), play: func(s *scene) {
			s.bundleImage("[fd00::1]:5000/bundle:v1")
			s.refused("private address")
		}},
	}
}

// trickle responds with one byte per second until the request is canceled.
func trickle(w http.ResponseWriter, r *http.Request, asked chan<- struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte{0}); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-every.C:
		case <-r.Context().Done():
		}
	}
}

func await(s *scene, sign <-chan struct{}, otherwise string) {
	s.T.Helper()
	select {
	case <-sign:
	case <-time.After(env.Patience):
		require.Fail(s.T, otherwise)
	}
}

// catalogSourceOf creates a CatalogSource for a catalog image.
func (s *scene) catalogSourceOf(tn *env.Tenant, name, ref string) {
	s.T.Helper()
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta(name),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref}})
}

// pushed pushes a catalog image to a repository and returns its reference.
func pushed(s *scene, repository string, layers ...v1.Layer) string {
	s.T.Helper()
	made, err := registry.Image(map[string]string{registry.LabelConfigs: "/configs"}, layers...)
	require.NoError(s.T, err)
	ref, _, err := images.Push(repository+":v1", made)
	require.NoError(s.T, err)
	return ref
}
