package grpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTarget(t *testing.T) {
	tenant := Scope{Namespace: "team-a"}
	global := Scope{Namespace: "remit", Anywhere: true}
	other := Scope{Namespace: "team-a", ClusterDomain: "k8s.example"}
	for _, tt := range []struct {
		name    string
		scope   Scope
		address string
		want    string
	}{
		{"a Service of the own namespace", tenant, "reg.team-a.svc:50051", "reg.team-a.svc:50051"},
		{"the short form", tenant, "reg.team-a:50051", "reg.team-a.svc:50051"},
		{"with the cluster domain", tenant, "reg.team-a.svc.cluster.local:50051", "reg.team-a.svc:50051"},
		{"with the cluster domain and its dot", tenant, "reg.team-a.svc.cluster.local.:50051", "reg.team-a.svc:50051"},
		{"with the configured cluster domain", other, "reg.team-a.svc.k8s.example:50051", "reg.team-a.svc:50051"},
		{"another cluster domain", other, "reg.team-a.svc.cluster.local:50051", ""},
		{"a Service of another namespace", tenant, "reg.team-b.svc:50051", ""},
		{"a name outside the cluster that begins alike", tenant, "reg.team-a.svc.evil.example:50051", ""},
		{"a pod of the own namespace by a longer name", tenant, "x.reg.team-a.svc:50051", ""},
		{"an IP address", tenant, "10.0.0.1:50051", ""},
		{"localhost", tenant, "localhost:50051", ""},
		{"a bare name", tenant, "reg:50051", ""},
		{"anything from the global catalog namespace", global, "registry.example.com:443", "registry.example.com:443"},
		{"an IP address from the global catalog namespace", global, "127.0.0.1:50051", "127.0.0.1:50051"},
		{"an IPv6 address from the global catalog namespace", global, "[::1]:50051", "[::1]:50051"},
		{"no port", global, "registry.example.com", ""},
		{"port zero", global, "registry.example.com:0", ""},
		{"a port by name", global, "registry.example.com:grpc", ""},
		{"a URL", global, "https://registry.example.com:443", ""},
		{"a gRPC scheme", global, "passthrough:///10.0.0.1:443", ""},
		{"a local socket", global, "unix:/run/x.sock", ""},
		{"no host", global, ":50051", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.scope.Target(tt.address)
			if tt.want == "" {
				require.ErrorContains(t, err, tt.address)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
