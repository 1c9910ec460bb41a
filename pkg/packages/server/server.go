package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	genericopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/transport"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/lib/listen"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// watchEnd is how long the server waits for watches to end when it shuts down. The default is a minute.
const watchEnd = 2 * time.Second

// Limits for connections that are not those of the kube-apiserver, or on which it has not sent a request yet. When it has no
// connection, it may open one for each request. maxUnserved is enough for the header of a request.
const maxConnections, maxPerClient, maxUnserved = 256, 64, 64 << 10

// Options configures a Server. All exported fields are required.
type Options struct {
	// Listener accepts the connections.
	Listener net.Listener
	// Certificate is the serving certificate. It must be issued before New is called.
	Certificate *Certificate
	// Store contains the packages.
	Store *store.Store
	// Writer is the name of the only user who can send catalogs: the catalog program.
	Writer string
	// Delegate configures authentication and authorization; Delegation returns the usual values.
	Delegate func(*genericserver.Config) error
	// pace is defaultPace, except in tests.
	pace listen.Pace
}

// Server is the generic API server with the API of PackageManifests.
type Server struct {
	generic *genericserver.GenericAPIServer
}

// New returns a Server.
func New(o Options) (*Server, error) {
	if o.Listener == nil || o.Certificate == nil || o.Store == nil || o.Writer == "" || o.Delegate == nil {
		return nil, errors.New("packages: Listener, Certificate, Store, Writer and Delegate are required")
	}
	config := genericserver.NewConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(definitions, genericopenapi.NewDefinitionNamer(scheme))
	config.OpenAPIV3Config.Info.Title = "Remit packages"
	config.EnableProfiling, config.EnableIndex = false, false
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = 0, 0 // clients limits the requests before they are authenticated
	config.ShutdownWatchTerminationGracePeriod = watchEnd
	chain := config.BuildHandlerChainFunc
	limited := listen.New(o.Listener, listen.Limits{Connections: maxConnections, PerClient: maxPerClient, Unserved: maxUnserved})
	config.BuildHandlerChainFunc = func(api http.Handler, c *genericserver.Config) http.Handler {
		proxy := c.Authentication.RequestHeaderConfig
		h := withServed(withPace(withDelivery(api, maxStall), cmp.Or(o.pace, defaultPace)), limited)
		h = withClients(chain(h, c), newClients(limited, proxy, o.Writer))
		return withAnswer(withTrust(withHealth(h, api), limited, proxy), answerTimeout)
	}
	serving := options.NewSecureServingOptions()
	serving.Listener, serving.BindPort = limited, o.Listener.Addr().(*net.TCPAddr).Port
	serving.ServerCert.GeneratedCert = o.Certificate
	if err := serving.WithLoopback().ApplyToConfig(config); err != nil {
		return nil, fmt.Errorf("secure serving: %w", err)
	}
	if err := o.Delegate(config); err != nil {
		return nil, err
	}
	room := newRoom()
	config.Authentication.Authenticator = identified{config.Authentication.Authenticator, limited}
	config.Authorization.Authorizer = onlyWriter{o.Writer, reviewed{room, config.Authorization.Authorizer}}
	generic, err := config.Complete(nil).New("package-server", genericserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("create API server: %w", err)
	}
	group := genericserver.NewDefaultAPIGroupInfo(packagesv1.GroupVersion.Group, scheme, parameterCodec, codecs)
	group.NegotiatedSerializer = compact{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[packagesv1.GroupVersion.Version] = storages(o.Store, room)
	if err := generic.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("install API: %w", err)
	}
	return &Server{generic}, nil
}

func storages(from *store.Store, room *room) map[string]rest.Storage {
	all := &manifests{store: from, room: room}
	catalogs := &catalogs{from, sendTimeout}
	return map[string]rest.Storage{
		packagesv1.ResourcePackageManifests:                                       all,
		packagesv1.ResourcePackageManifests + "/" + packagesv1.SubresourceIcon:    &iconREST{all},
		packagesv1.ResourcePackageCatalogs:                                        catalogs,
		packagesv1.ResourcePackageCatalogs + "/" + packagesv1.SubresourceContent:  newContent(catalogs),
		packagesv1.ResourcePackageCatalogs + "/" + packagesv1.SubresourceComplete: newComplete(catalogs),
	}
}

// Run serves until the context is done.
func (s *Server) Run(ctx context.Context) error {
	return s.generic.PrepareRun().RunWithContext(ctx)
}

// Delegation returns a function that delegates authentication and authorization to the kube-apiserver, as every aggregated
// API server does. wrap wraps the transport of the requests.
func Delegation(kubeconfig string, wrap transport.WrapperFunc) func(*genericserver.Config) error {
	return func(config *genericserver.Config) error {
		authentication, authorization := options.NewDelegatingAuthenticationOptions(), options.NewDelegatingAuthorizationOptions()
		authentication.RemoteKubeConfigFile, authorization.RemoteKubeConfigFile = kubeconfig, kubeconfig
		authentication.WithCustomRoundTripper(wrap)
		authorization.WithCustomRoundTripper(wrap)
		if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
			return fmt.Errorf("delegate authentication: %w", err)
		}
		if err := authorization.ApplyTo(&config.Authorization); err != nil {
			return fmt.Errorf("delegate authorization: %w", err)
		}
		return nil
	}
}
