package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/net/http/httpproxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// Limits for a registry, in addition to those of package catalog.
const (
	// DialTimeout bounds one attempt to connect.
	DialTimeout = 10 * time.Second
	// MaxReconnectDelay bounds the delay between attempts.
	MaxReconnectDelay = time.Minute
	// StreamTimeout bounds the time for listing all bundles and packages.
	StreamTimeout = 5 * time.Minute
	// CallTimeout bounds one call.
	CallTimeout = 30 * time.Second
	// MaxMessageBytes bounds one message: a bundle with its manifests, one of which is repeated in csvJson. OLM v0 accepts
	// 4 MiB, gRPC's default, so that no registry for it sends more.
	MaxMessageBytes = 8 << 20
	// windowBytes bounds the data that a registry can send before Remit reads it. It is the smallest window of gRPC.
	windowBytes = 64 << 10
	// UnreadBytes bounds the memory of what a registry has sent for a call whose next message is not being read.
	UnreadBytes = 512 << 10
)

//go:generate go run -modfile=../../../hack/tools/go.mod github.com/golang/mock/mockgen -source=client.go -destination=mock_test.go -package=grpc

// RegistryClient is the part of the Registry API that Remit uses.
type RegistryClient interface {
	// ListBundles calls each for every bundle of every channel. It stops when each returns an error.
	ListBundles(ctx context.Context, each func(*api.Bundle) error) error
	// GetPackage returns a package, which includes its default channel.
	GetPackage(ctx context.Context, name string) (*api.Package, error)
	// GetBundle returns a bundle with its manifests.
	GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error)
}

// Conn is a connection to a registry. After Connect, gRPC reconnects automatically.
type Conn struct {
	*grpc.ClientConn
	api   api.RegistryClient
	meter *meter
}

var _ RegistryClient = &Conn{}

// maxHeaderBytes is the maximum size of the headers of a response.
const maxHeaderBytes = 64 << 10

// NewConn returns a connection to target, in the form host:port. The connection is idle until Connect is called. Like
// any gRPC client, it uses a proxy from the environment (HTTPS_PROXY, NO_PROXY).
func NewConn(target string) (*Conn, error) {
	meter := newMeter()
	options := []grpc.DialOption{
		// Registries of OLM v0 serve plain text inside the cluster; there is no field for a CA certificate.
		grpc.WithTransportCredentials(metered(meter)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect(), MinConnectTimeout: DialTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.ForceCodecV2(newCodec(meter.message))),
		// Disable the idle timeout: an idle connection would be mistaken for a lost one, and the catalog would be
		// reloaded unnecessarily.
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		// gRPC's buffers have few sizes: a frame of 1,025 bytes would take 4 KiB.
		experimental.WithBufferPool(mem.NopBufferPool{}),
		// Fixed windows bound the data that a registry can send before Remit reads it; gRPC's dynamic windows grow to
		// 16 MiB.
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		// The text of an error is in a header, and is kept until the next attempt.
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
	}
	if !proxied(target) {
		options = append(options, grpc.WithNoProxy())
	}
	conn, err := grpc.NewClient("dns:///"+target, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to registry %q: %w", target, err)
	}
	return &Conn{ClientConn: conn, api: api.NewRegistryClient(conn), meter: meter}, nil
}

// proxied reports whether the environment defines a proxy for a target. It ignores a trailing dot in the target,
// because names in NO_PROXY have none.
func proxied(target string) bool {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return true
	}
	host = net.JoinHostPort(strings.TrimSuffix(host, "."), port)
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: host})
	return err != nil || proxy != nil
}

func reconnect() backoff.Config {
	cfg := backoff.DefaultConfig
	cfg.MaxDelay = MaxReconnectDelay
	return cfg
}

// ListBundles implements RegistryClient.
func (c *Conn) ListBundles(ctx context.Context, each func(*api.Bundle) error) error {
	defer c.meter.begin()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.api.ListBundles(ctx, &api.ListBundlesRequest{})
	if err != nil {
		return err
	}
	for {
		b, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(b); err != nil {
			return err
		}
	}
}

// GetPackage implements RegistryClient.
func (c *Conn) GetPackage(ctx context.Context, name string) (*api.Package, error) {
	defer c.meter.begin()()
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return c.api.GetPackage(ctx, &api.GetPackageRequest{Name: name})
}

// GetBundle implements RegistryClient.
func (c *Conn) GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error) {
	defer c.meter.begin()()
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return c.api.GetBundle(ctx, &api.GetBundleRequest{PkgName: pkg, ChannelName: channel, CsvName: name})
}
