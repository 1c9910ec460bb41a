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
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Limits on a registry, beside those of package catalog.
const (
	// DialTimeout bounds one attempt to connect.
	DialTimeout = 10 * time.Second
	// MaxReconnectDelay bounds the pause between attempts.
	MaxReconnectDelay = time.Minute
	// StreamTimeout bounds the whole list of bundles with its packages.
	StreamTimeout = 5 * time.Minute
	// CallTimeout bounds one call.
	CallTimeout = 30 * time.Second
	// MaxMessageBytes bounds one message: a bundle with its manifests, twice (csvJson repeats one).
	MaxMessageBytes = 2*catalog.MaxContentBytes + 1<<20
	// windowBytes is how much a registry may send ahead.
	windowBytes = 1 << 20
)

//go:generate go run -modfile=../../../hack/tools/go.mod github.com/golang/mock/mockgen -source=client.go -destination=mock/registry_client.go -package=mock

// RegistryClient is what Remit asks of a registry.
type RegistryClient interface {
	// ListBundles calls each for every bundle of every channel, until it returns an error.
	ListBundles(ctx context.Context, each func(*api.Bundle) error) error
	// GetPackage returns a package, for its default channel.
	GetPackage(ctx context.Context, name string) (*api.Package, error)
	// GetBundle returns a bundle with its manifests.
	GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error)
}

// Conn is a connection to a registry. gRPC reconnects it by itself once it was told to connect.
type Conn struct {
	conn *grpc.ClientConn
	api  api.RegistryClient
}

var _ RegistryClient = &Conn{}

// NewConn makes a connection that is idle until Connect. The target comes from Scope.Target. A proxy
// is taken from the environment (HTTPS_PROXY, NO_PROXY), as gRPC does.
func NewConn(target string) (*Conn, error) {
	options := []grpc.DialOption{
		// Registries of OLM v0 serve plain text inside the cluster; there is no field for a CA.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect(), MinConnectTimeout: DialTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.ForceCodecV2(newCodec())),
		// Going idle would look like a loss, and make the catalog load again for nothing.
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		// Fixed windows bound what a registry may send ahead while it is another's turn; by itself gRPC lets them grow to 16 MiB.
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
	}
	if !proxied(target) {
		options = append(options, grpc.WithNoProxy())
	}
	conn, err := grpc.NewClient("dns:///"+target, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to registry %q: %w", target, err)
	}
	return &Conn{conn: conn, api: api.NewRegistryClient(conn)}, nil
}

// proxied says whether the environment has a proxy for a target. A name's final dot is left out, which NO_PROXY does not have.
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

// Connect leaves the idle state; it does not wait.
func (c *Conn) Connect() { c.conn.Connect() }

// State is the state of the connection now.
func (c *Conn) State() connectivity.State { return c.conn.GetState() }

// WaitForStateChange returns when the state is no longer the given one, false if ctx ends first.
func (c *Conn) WaitForStateChange(ctx context.Context, state connectivity.State) bool {
	return c.conn.WaitForStateChange(ctx, state)
}

// Close ends the connection and all calls under way.
func (c *Conn) Close() error { return c.conn.Close() }

// ListBundles implements RegistryClient.
func (c *Conn) ListBundles(ctx context.Context, each func(*api.Bundle) error) error {
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
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return c.api.GetPackage(ctx, &api.GetPackageRequest{Name: name})
}

// GetBundle implements RegistryClient.
func (c *Conn) GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return c.api.GetBundle(ctx, &api.GetBundleRequest{PkgName: pkg, ChannelName: channel, CsvName: name})
}
