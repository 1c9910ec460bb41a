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
	// Base reaches the API server with self's credentials, which are used to mint tokens only.
	Base   *rest.Config
	Scheme *runtime.Scheme
	// Mapper is shared by all accounts: discovery needs no authority of theirs.
	Mapper meta.RESTMapper
	// UserAgent of what is sent as an account; the default is client-go's.
	UserAgent string
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Clients holds one client, with one transport and one token, for each account that was asked for.
// It is safe for use by many goroutines.
type Clients struct {
	options Options
	mint    corev1client.ServiceAccountsGetter

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

// idleTimeout closes the connections of accounts that have nothing to do.
const idleTimeout = 90 * time.Second

type entry struct {
	account Account
	source  *tokenSource
	client  client.WithWatch
	close   func()
}

// NewClients checks the options. It sends nothing.
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

// For returns a client that is authenticated as the account; its token is minted here if there is
// none, so that an account that may not be used is an *Error before anything is sent as it.
func (c *Clients) For(ctx context.Context, account Account) (client.Client, error) {
	return c.ForWatch(ctx, account)
}

// ForWatch is For with a client that can watch.
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

// Open is For without a token: it is minted with the first request, whose error tells where it cannot be.
// Nothing is sent here.
func (c *Clients) Open(account Account) (client.Client, error) {
	e, err := c.entry(account)
	if err != nil {
		return nil, err
	}
	return e.client, nil
}

// Forget drops the account's client and token: it was deleted, or lost.
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

// anonymous is the base configuration without any of self's credentials.
func (c *Clients) anonymous() *rest.Config {
	config := rest.AnonymousClientConfig(c.options.Base)
	config.QPS = -1 // the API server's priority and fairness decides, per account
	if c.options.UserAgent != "" {
		config.UserAgent = c.options.UserAgent
	}
	return config
}
