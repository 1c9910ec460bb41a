package grpc

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/remit-olm/remit/pkg/catalog"
)

// server is a registry with fixed bundles.
type server struct {
	api.UnimplementedRegistryServer
	bundles []*api.Bundle
}

func (s *server) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	for _, b := range s.bundles {
		if err := stream.Send(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) GetPackage(_ context.Context, in *api.GetPackageRequest) (*api.Package, error) {
	return &api.Package{Name: in.GetName(), DefaultChannelName: "stable"}, nil
}

func (s *server) GetBundle(_ context.Context, in *api.GetBundleRequest) (*api.Bundle, error) {
	for _, b := range s.bundles {
		if b.GetPackageName() == in.GetPkgName() && b.GetChannelName() == in.GetChannelName() && b.GetCsvName() == in.GetCsvName() {
			return b, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such bundle")
}

// serve serves bundles on a loopback port until the test ends.
func serve(t *testing.T, bundles ...*api.Bundle) (target string, stop func()) {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	api.RegisterRegistryServer(s, &server{bundles: bundles})
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	return lis.Addr().String(), s.Stop
}

// failing is a registry whose error has a text of 1 MB.
type failing struct{ server }

func (*failing) ListBundles(*api.ListBundlesRequest, api.Registry_ListBundlesServer) error {
	return status.Error(codes.Internal, strings.Repeat("x", 1<<20))
}

func TestErrorsOfARegistryAreShort(t *testing.T) {
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	api.RegisterRegistryServer(s, &failing{})
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	conn, err := NewConn(lis.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = Load(t.Context(), conn, catalog.Kept{})
	require.Error(t, err)
	require.Less(t, len(err.Error()), 2*maxHeaderBytes)
}

func await(t *testing.T, c *Conn, want connectivity.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for s := c.GetState(); s != want; s = c.GetState() {
		require.True(t, c.WaitForStateChange(ctx, s), "still %s, not %s", s, want)
	}
}

func TestConnLoadsFromAServer(t *testing.T) {
	target, stop := serve(t, v1("stable"), v2())
	conn, err := NewConn(target)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.Equal(t, connectivity.Idle, conn.GetState())
	conn.Connect()
	await(t, conn, connectivity.Ready)

	snap, err := Load(t.Context(), conn, catalog.Kept{})
	require.NoError(t, err)
	content, err := snap.Reader.Content(t.Context(), "a", "stable", "a.v2")
	require.NoError(t, err)
	require.Len(t, content.Manifests, 1)
	_, err = snap.Reader.Content(t.Context(), "a", "stable", "a.v1")
	require.ErrorIs(t, err, catalog.ErrNoContent)
	_, err = snap.Reader.Content(t.Context(), "a", "stable", "a.v3")
	require.Equal(t, codes.NotFound, status.Code(err))

	stop()
	await(t, conn, connectivity.Idle)
}
