package network

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

func TestClaimedNetworksDifferAndAreReused(t *testing.T) {
	dir := t.TempDir()
	first, l, err := Claim(dir)
	require.NoError(t, err)
	other, otherListener, err := Claim(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, otherListener.Close()) })
	require.NotEqual(t, first, other)
	require.NoError(t, l.Close())
	again, l, err := Claim(dir)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Equal(t, first, again)
}

func TestResolve(t *testing.T) {
	r := &Resolver{Net: PodNet{n: 7}, Listers: fakeServices(t)}
	for _, test := range []struct{ name, address, want, wantErr string }{
		{name: "maps a Pod", address: "10.7.1.2:80", want: "127.7.1.2:80"},
		{name: "does not map Pods of other networks", address: "10.8.1.2:80", want: "10.8.1.2:80"},
		{name: "does not map loopback", address: "127.0.0.1:80", want: "127.0.0.1:80"},
		{name: "maps the API server's cluster IP", address: "10.96.0.1:443", want: "127.7.255.254:6443"},
		{name: "maps the API server's name", address: "kubernetes.default.svc:443", want: "127.7.255.254:6443"},
		{name: "resolves a Service's name to a ready endpoint", address: "web.ns.svc:443", want: "127.7.0.1:8443"},
		{name: "resolves the long name", address: "web.ns.svc.cluster.local:443", want: "127.7.0.1:8443"},
		{name: "resolves a cluster IP", address: "10.96.1.1:443", want: "127.7.0.1:8443"},
		{name: "rejects an unknown port of the Service", address: "web.ns.svc:80", wantErr: "has no port 80"},
		{name: "rejects an unknown Service", address: "no.ns.svc:80", wantErr: "not found"},
		{name: "rejects an unknown cluster IP", address: "10.96.9.9:80", wantErr: "no Service has"},
		{name: "does not map external hosts", address: "example.com:443", want: "example.com:443"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := r.Resolve(test.address)
			if test.wantErr != "" {
				require.ErrorContains(t, err, test.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestTheProxyTunnelsAndForwards(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	plain, secure := httptest.NewServer(hello), httptest.NewTLSServer(hello)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	targets := map[string]string{"plain.test:80": plain.Listener.Addr().String(), "example.com:443": secure.Listener.Addr().String()}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		target, ok := targets[address]
		if !ok {
			return nil, &net.AddrError{Err: "nobody\nhere", Addr: address}
		}
		return (&net.Dialer{}).DialContext(ctx, network, target)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	NewProxy(dial).Serve(l)
	client := secure.Client()
	transport := client.Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})
	client.Transport = transport

	for _, address := range []string{"http://plain.test/", "https://example.com/"} {
		response, err := client.Get(address)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, "hello", string(body))
	}
	_, err = client.Get("https://nowhere.test/")
	require.ErrorContains(t, err, "nobody here", "the reason is in the status line")
}

func fakeServices(t *testing.T) func() *Services {
	t.Helper()
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	slices := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	require.NoError(t, services.Add(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.1.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443}},
	}}))
	require.NoError(t, slices.Add(&discoveryv1.EndpointSlice{
		ObjectMeta: meta,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("https"), Port: new(int32(8443))}, {Name: new("metrics"), Port: new(int32(9090))},
		},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.7.0.1"}},
			{Addresses: []string{"10.7.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
		},
	}))
	found := &Services{Services: corelisters.NewServiceLister(services), Slices: discoverylisters.NewEndpointSliceLister(slices)}
	return func() *Services { return found }
}

func TestSpecialAddressesAreOutsideThePodRange(t *testing.T) {
	p := PodNet{n: 9}
	require.Equal(t, "10.9.0.0/16", p.CIDR())
	require.Equal(t, netip.MustParseAddrPort("127.9.255.254:6443"), p.APIAddr())
	require.Equal(t, p.KubeletAddr().Addr(), p.Local(p.NodeAddr()))
}
