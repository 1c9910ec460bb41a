package scoped

import (
	"context"
	"errors"
	"fmt"
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
)

// Options for NewClients. Base, Scheme and Mapper are required.
type Options struct {
	// Base connects to the API server with the controller identity, which is used only to request tokens.
	Base   *rest.Config
	Scheme *runtime.Scheme
	// Mapper is shared by all accounts, because discovery does not require their permissions.
	Mapper meta.RESTMapper
	// UserAgent is sent with requests as an account; it defaults to client-go's.
	UserAgent string
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Clients contains one client, with its own transport and token, for each account in use. It is safe for concurrent use.
type Clients struct {
	options Options
	mint    corev1client.ServiceAccountsGetter

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

// idleTimeout closes the idle connections of accounts.
const idleTimeout = 90 * time.Second

type entry struct {
	account Account
	source  *tokenSource
	client  client.WithWatch
	close   func()
}

// NewClients validates the options. It sends no request.
func NewClients(o Options) (*Clients, error) {
	if o.Base == nil || o.Scheme == nil || o.Mapper == nil {
		return nil, errors.New("scoped: Base, Scheme and Mapper are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	mint, err := corev1client.NewForConfig(o.Base)
	if err != nil {
		return nil, fmt.Errorf("client for token requests: %w", err)
	}
	return &Clients{options: o, mint: mint, entries: map[types.NamespacedName]*entry{}}, nil
}

// For returns a client that is authenticated as the account. It requests a token if needed, so that an unusable account
// is reported as an *Error before any request as the account.
func (c *Clients) For(ctx context.Context, account Account) (client.Client, error) {
	return c.ForWatch(ctx, account)
}

// ForWatch is like For, with a client that can watch.
func (c *Clients) ForWatch(ctx context.Context, account Account) (client.WithWatch, error) {
	e, err := c.entry(account)
	if err != nil {
		return nil, err
	}
	if _, err := e.source.get(ctx); err != nil {
		return nil, err
	}
	return e.client, nil
}

// Open is like For, but requests the token with the first request, which returns any error. Open sends no request.
func (c *Clients) Open(account Account) (client.Client, error) {
	e, err := c.entry(account)
	if err != nil {
		return nil, err
	}
	return e.client, nil
}

// Forget drops the cached client and token of an account that was deleted or is no longer usable.
func (c *Clients) Forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key)
}

func (c *Clients) forget(key types.NamespacedName) {
	if e, ok := c.entries[key]; ok {
		e.close()
		delete(c.entries, key)
	}
}

func (c *Clients) entry(account Account) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[account.Key()]; ok {
		if e.account.UID == account.UID {
			return e, nil
		}
		c.forget(account.Key())
	}
	e, err := c.open(account)
	if err != nil {
		return nil, fmt.Errorf("client for ServiceAccount %s: %w", account.Key(), err)
	}
	c.entries[account.Key()] = e
	return e, nil
}

func (c *Clients) open(account Account) (*entry, error) {
	config := c.anonymous()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	base := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   tlsConfig,
		ForceAttemptHTTP2: true,
		IdleConnTimeout:   idleTimeout,
	}
	source := &tokenSource{account: account, mint: c.mint, clock: c.options.Clock}
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = &transport{source: source, next: base}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	typed, err := client.NewWithWatch(config, client.Options{
		HTTPClient: httpClient, Scheme: c.options.Scheme, Mapper: c.options.Mapper,
	})
	if err != nil {
		return nil, err
	}
	return &entry{account: account, source: source, client: typed, close: base.CloseIdleConnections}, nil
}

// anonymous returns the base configuration without credentials.
func (c *Clients) anonymous() *rest.Config {
	config := rest.AnonymousClientConfig(c.options.Base)
	config.QPS = -1 // the API server's priority and fairness limits each account
	if c.options.UserAgent != "" {
		config.UserAgent = c.options.UserAgent
	}
	return config
}
