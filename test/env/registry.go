package env

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const registryPort = 50051

// grpcRegistry serves the sample's bundle over gRPC, like the registries of OLM v0.
type grpcRegistry struct {
	api.UnimplementedRegistryServer
	bundle *api.Bundle
}

func newRegistry() (*grpcRegistry, error) {
	v, err := NewVariant()
	if err != nil {
		return nil, err
	}
	out := &api.Bundle{
		PackageName: bundle.Package, ChannelName: bundle.Channel, CsvName: bundle.CSV, Version: "0.1.0",
		Properties: []*api.Property{{Type: "olm.package", Value: fmt.Sprintf(`{"packageName":%q,"version":"0.1.0"}`, bundle.Package)}},
	}
	for file, obj := range v {
		text, err := json.Marshal(obj.Object)
		if err != nil {
			return nil, err
		}
		out.Object = append(out.Object, string(text))
		if file == FileCSV {
			out.CsvJson = string(text)
		}
	}
	return &grpcRegistry{bundle: out}, nil
}

// ListBundles implements api.RegistryServer. It omits the manifests, as real servers do.
func (r *grpcRegistry) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	return stream.Send(&api.Bundle{
		PackageName: r.bundle.PackageName, ChannelName: r.bundle.ChannelName, CsvName: r.bundle.CsvName,
		Version: r.bundle.Version, BundlePath: bundle.Image, Properties: r.bundle.Properties,
	})
}

// GetPackage implements api.RegistryServer.
func (r *grpcRegistry) GetPackage(_ context.Context, in *api.GetPackageRequest) (*api.Package, error) {
	return &api.Package{Name: in.GetName(), DefaultChannelName: r.bundle.ChannelName,
		Channels: []*api.Channel{{Name: r.bundle.ChannelName, CsvName: r.bundle.CsvName}}}, nil
}

// GetBundle implements api.RegistryServer.
func (r *grpcRegistry) GetBundle(_ context.Context, in *api.GetBundleRequest) (*api.Bundle, error) {
	if in.GetPkgName() != r.bundle.PackageName || in.GetCsvName() != r.bundle.CsvName {
		return nil, status.Error(codes.NotFound, "no such bundle")
	}
	return r.bundle, nil
}

// simulated is the number of simulated Pods.
var simulated atomic.Int32

// Registry serves the sample's bundle from a Pod that this process simulates, behind a Service in the namespace, and
// returns the Service's address.
func (tn *Tenant) Registry(name string) string {
	tn.T.Helper()
	r, err := newRegistry()
	require.NoError(tn.T, err)
	return tn.Serve(name, r)
}

// Serve serves arbitrary content from a Pod that this process simulates, behind a Service in the namespace, and returns
// the Service's address.
func (tn *Tenant) Serve(name string, r api.RegistryServer) string {
	tn.T.Helper()
	network, err := netip.ParsePrefix(tn.Cluster.PodNet)
	require.NoError(tn.T, err)
	ip := network.Addr().As4()
	ip[2], ip[3] = 200, byte(simulated.Add(1))
	pod := netip.AddrFrom4(ip)
	ip[0] = 127
	listener, err := (&net.ListenConfig{}).Listen(tn.T.Context(), "tcp", netip.AddrPortFrom(netip.AddrFrom4(ip), registryPort).String())
	require.NoError(tn.T, err)
	server := grpc.NewServer()
	api.RegisterRegistryServer(server, r)
	go func() { _ = server.Serve(listener) }()
	tn.T.Cleanup(server.Stop)

	port := corev1.ServicePort{Name: "grpc", Port: registryPort}
	// The selector matches no Pods, so no controller changes the EndpointSlice below.
	tn.Create(&corev1.Service{ObjectMeta: tn.Meta(name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"played-by": "test"}, Ports: []corev1.ServicePort{port}}})
	meta := tn.Meta(name)
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	tn.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  meta,
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{pod.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("grpc"), Port: ptr.To[int32](registryPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
	})
	return fmt.Sprintf("%s.%s.svc:%d", name, tn.Namespace, registryPort)
}
