package grpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestService(t *testing.T) {
	tenant := Scope{Namespace: "team-a"}
	other := Scope{Namespace: "team-a", ClusterDomain: "k8s.example"}
	for _, tt := range []struct {
		name    string
		scope   Scope
		address string
		want    string
	}{
		{"a Service in the same namespace", tenant, "reg.team-a.svc:50051", "reg"},
		{"the short form", tenant, "reg.team-a:50051", "reg"},
		{"with the cluster domain", tenant, "reg.team-a.svc.cluster.local:50051", "reg"},
		{"with the cluster domain and a trailing dot", tenant, "reg.team-a.svc.cluster.local.:50051", "reg"},
		{"with the configured cluster domain", other, "reg.team-a.svc.k8s.example:50051", "reg"},
		{"another cluster domain", other, "reg.team-a.svc.cluster.local:50051", ""},
		{"a Service of another namespace", tenant, "reg.team-b.svc:50051", ""},
		{"an external name with the same prefix", tenant, "reg.team-a.svc.evil.example:50051", ""},
		{"a Pod in the same namespace, by a longer name", tenant, "x.reg.team-a.svc:50051", ""},
		{"an IP address", tenant, "10.0.0.1:50051", ""},
		{"localhost", tenant, "localhost:50051", ""},
		{"a bare name", tenant, "reg:50051", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.scope.Service(tt.address)
			if tt.want == "" {
				require.ErrorContains(t, err, tt.address)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Service{tt.want, "50051"}, got)
		})
	}
}

func TestTarget(t *testing.T) {
	for _, tt := range []struct{ name, address, want string }{
		{"a Service", "reg.team-b.svc:50051", "reg.team-b.svc.k8s.example.:50051"},
		{"a Service with the cluster domain", "reg.team-b.svc.k8s.example:50051", "reg.team-b.svc.k8s.example.:50051"},
		{"a name with a trailing dot", "reg.example.com.:443", "reg.example.com.:443"},
		{"a short name", "reg.team-b:443", "reg.team-b:443"},
		{"any name", "registry.example.com:443", "registry.example.com.:443"},
		{"an IP address", "127.0.0.1:50051", "127.0.0.1:50051"},
		{"an IPv6 address", "[::1]:50051", "[::1]:50051"},
		{"no port", "registry.example.com", ""},
		{"port zero", "registry.example.com:0", ""},
		{"a named port", "registry.example.com:grpc", ""},
		{"a URL", "https://registry.example.com:443", ""},
		{"a gRPC scheme", "passthrough:///10.0.0.1:443", ""},
		{"a Unix socket", "unix:/run/x.sock", ""},
		{"no host", ":50051", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Scope{Namespace: "remit", ClusterDomain: "k8s.example"}.Target(tt.address)
			if tt.want == "" {
				require.ErrorContains(t, err, tt.address)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
