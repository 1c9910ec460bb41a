package scoped

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/decoding"
	"github.com/remit-olm/remit/pkg/lib/warning"
)

// Options configures NewClients. Base, Scheme and Mapper are required.
type Options struct {
	// Base connects to the API server with the controller identity, which is used only to request tokens and to impersonate
	// synthetic users.
	Base   *rest.Config
	Scheme *runtime.Scheme
	// Mapper is shared by all accounts, because discovery does not require their permissions.
	Mapper meta.RESTMapper
	// UserAgent is the user agent of all requests as an account. It defaults to client-go's user agent.
	UserAgent string
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Clients creates and caches one client for each identity in use. The clients of accounts share one client-go transport, and
// each request carries the token of its account; those of synthetic users share the transport of the controller identity. It
// is safe for concurrent use.
type Clients struct {
	options Options
	mint    corev1client.ServiceAccountsGetter
	// unauthenticated is the transport, and shared is the client, of all accounts.
	unauthenticated http.RoundTripper
	shared          client.WithWatch

	mu sync.Mutex
	// entries contains the clients by user name.
	entries map[string]*entry
	// sweeping is true while a timer runs that drops unused clients.
	sweeping bool
}

const (
	// keepUnused is how long the client and token of an account are kept without being used. Most accounts send requests only
	// during an install, and a token uses more memory than everything else that belongs to an account. Clients of synthetic
	// users have no token, but verify the impersonation again when they are rebuilt; keepSynthetic applies to them.
	keepUnused    = 5 * time.Minute
	keepSynthetic = 30 * time.Minute
	// sweepInterval is how often unused clients are dropped.
	sweepInterval = time.Minute
)

type entry struct {
	identity Identity
	// check returns an *Error if the identity is not usable. It sends no request if the identity was usable recently.
	check  func(context.Context) error
	client client.WithWatch
	// connect returns a configuration and an HTTP client that authenticate as the identity.
	connect func() (*rest.Config, *http.Client, error)
	source  *tokenSource // nil for a synthetic user
	// used is when the entry was last used.
	used time.Time
}

// NewClients returns an empty cache of clients, or an error if a required option is missing. It sends no request.
func NewClients(o Options) (*Clients, error) {
	if o.Base == nil || o.Scheme == nil || o.Mapper == nil {
		return nil, errors.New("scoped: Base, Scheme and Mapper are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	mint, err := corev1client.NewForConfig(o.Base)
	if err != nil {
		return nil, fmt.Errorf("create the client for token requests: %w", err)
	}
	c := &Clients{options: o, mint: mint, entries: map[string]*entry{}}
	base := c.anonymous()
	base.Wrap(decoding.Tolerant(o.Scheme))
	if c.unauthenticated, err = rest.TransportFor(base); err != nil {
		return nil, fmt.Errorf("create the transport of accounts: %w", err)
	}
	config, httpClient, err := c.through(dispatcher{})
	if err != nil {
		return nil, fmt.Errorf("create the client of accounts: %w", err)
	}
	if c.shared, err = c.client(config, httpClient); err != nil {
		return nil, fmt.Errorf("create the client of accounts: %w", err)
	}
	return c, nil
}

// For returns a client that is authenticated as the account. For requests a token if there is no valid one, so that it
// reports an unusable account as an *Error before any request is sent as that account.
func (c *Clients) For(ctx context.Context, account Account) (client.Client, error) {
	return c.ForWatch(ctx, account)
}

// ForWatch is like For, but returns a client that can also watch.
func (c *Clients) ForWatch(ctx context.Context, account Account) (client.WithWatch, error) {
	return c.As(ctx, account.Identity())
}

// As returns a client that sends its requests as the identity. It reports an unusable identity as an *Error before any
// request is sent as that identity.
func (c *Clients) As(ctx context.Context, identity Identity) (client.WithWatch, error) {
	e, err := c.entry(identity)
	if err != nil {
		return nil, err
	}
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	return e.client, nil
}

// Connect returns a configuration and an HTTP client that send requests as the identity, for caches. It sends no request.
func (c *Clients) Connect(identity Identity) (*rest.Config, *http.Client, error) {
	e, err := c.entry(identity)
	if err != nil {
		return nil, nil, err
	}
	return e.connect()
}

// Open returns a client that is authenticated as the account, without sending a request. The client requests the token
// when it is first used; an error is returned by that call.
func (c *Clients) Open(account Account) (client.Client, error) {
	e, err := c.entry(account.Identity())
	if err != nil {
		return nil, err
	}
	return e.client, nil
}

// Forget drops the cached client and token of an account. Call it when the account has been deleted or is no longer
// usable.
func (c *Clients) Forget(key types.NamespacedName) { c.ForgetIdentity(ServiceAccountIdentity(key)) }

// ForgetIdentity drops the cached client of an identity, which for an account contains its token.
func (c *Clients) ForgetIdentity(identity Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, identity.Username())
}

func (c *Clients) entry(identity Identity) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock.Now()
	key := identity.Username()
	if e, ok := c.entries[key]; ok && e.identity.Account.UID == identity.Account.UID {
		e.used = now
		return e, nil
	}
	open := c.open
	if identity.IsSynthetic() {
		open = c.openSynthetic
	}
	e, err := open(identity)
	if err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", identity, err)
	}
	e.used = now
	c.entries[key] = e
	if !c.sweeping {
		c.sweeping = true
		time.AfterFunc(sweepInterval, c.sweep)
	}
	return e, nil
}

// isUnused reports whether a client is no longer worth keeping.
func (e *entry) isUnused(now time.Time) bool {
	keep := keepUnused
	if e.identity.IsSynthetic() {
		keep = keepSynthetic
	}
	return now.Sub(e.used) > keep
}

// sweep drops the clients that are no longer used, and repeats until there are none.
func (c *Clients) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock.Now()
	maps.DeleteFunc(c.entries, func(_ string, e *entry) bool { return e.isUnused(now) })
	if c.sweeping = len(c.entries) > 0; c.sweeping {
		time.AfterFunc(sweepInterval, c.sweep)
	}
}

func (c *Clients) open(identity Identity) (*entry, error) {
	if identity.Account.UID == "" {
		return nil, errors.New("the UID of the ServiceAccount is required")
	}
	source := &tokenSource{account: identity.Account, mint: c.mint, clock: c.options.Clock}
	sender := &transport{source: source, next: c.unauthenticated}
	check := func(ctx context.Context) error {
		_, err := source.get(ctx)
		return err
	}
	connect := func() (*rest.Config, *http.Client, error) { return c.through(sender) }
	return &entry{identity: identity, check: check, source: source, client: &accountClient{WithWatch: c.shared, sender: sender}, connect: connect}, nil
}

// through returns a configuration without credentials, and an HTTP client that sends requests through the transport.
func (c *Clients) through(next http.RoundTripper) (*rest.Config, *http.Client, error) {
	config := c.anonymous()
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = next
	httpClient, err := rest.HTTPClientFor(config)
	return config, httpClient, err
}

func (c *Clients) client(config *rest.Config, httpClient *http.Client) (client.WithWatch, error) {
	return client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: c.options.Scheme, Mapper: c.options.Mapper})
}

// anonymous returns the base configuration without credentials.
func (c *Clients) anonymous() *rest.Config {
	config := rest.AnonymousClientConfig(c.options.Base)
	c.configure(config)
	return config
}

func (c *Clients) configure(config *rest.Config) {
	config.WarningHandler, config.WarningHandlerWithContext = nil, warning.Handler{}
	config.QPS = -1 // no client-side limit: API Priority and Fairness limits each user
	if c.options.UserAgent != "" {
		config.UserAgent = c.options.UserAgent
	}
}
