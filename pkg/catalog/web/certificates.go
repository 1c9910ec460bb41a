package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/install/cert"
)

const (
	// life is the lifetime of a certificate.
	life = 90 * 24 * time.Hour
	// settle is how long the next CA is published before the server uses its certificate, and how long the previous CA is
	// published afterward. It exceeds the time that clients need to notice a change, for example of a mounted ConfigMap.
	settle = time.Hour
	// firstPause and lastPause bound the delay before a retry after the CA could not be published.
	firstPause, lastPause = 5 * time.Second, 5 * time.Minute
)

// Certificates issues and replaces the certificate of the server.
type Certificates struct {
	// Hosts are the DNS names through which clients reach the server.
	Hosts []string
	// Publish makes a bundle of CAs available to clients. It is called whenever the bundle changes.
	Publish func(ctx context.Context, bundle []byte) error
	// Use, if set, is called with each new certificate and its key. For the first certificate, it is called before the
	// bundle with its CA is published.
	Use func(certificate, key []byte)
	// Clock provides the time; nil means the system clock.
	Clock clock.WithTicker

	current atomic.Pointer[tls.Certificate]
	set     cert.Set
	// published is the bundle that clients can read, and since is the time at which it was published.
	published []byte
	since     time.Time
	// used is the time at which the server began to use the current pair.
	used time.Time
}

// Get returns the current certificate. It has the signature of tls.Config.GetCertificate.
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("the certificate has not been issued yet")
}

// Start implements manager.Runnable: it issues a certificate and replaces it before it expires, until ctx is done.
func (c *Certificates) Start(ctx context.Context) error {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	pause := time.Duration(0)
	for {
		after, err := c.advance(ctx)
		if err != nil {
			pause = min(max(2*pause, firstPause), lastPause)
			after = pause
			logr.FromContextOrDiscard(ctx).Error(err, "Cannot replace the serving certificate")
		} else {
			pause = 0
		}
		if after == 0 {
			continue
		}
		timer := c.Clock.NewTimer(after)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// advance executes the next step of a rotation. It returns the delay until the next one.
func (c *Certificates) advance(ctx context.Context) (after time.Duration, err error) {
	policy := cert.Policy{Life: life, Settle: settle}
	now := c.Clock.Now()
	// The server may need some time to load a new certificate, so the CA of the previous certificate is retired later.
	retired := c.used.Add(settle)
	seen := cert.Observed{Now: now, Hosts: c.Hosts, Recorded: c.set.Hashes(), Running: !now.Before(retired)}
	if !c.set.IsZero() {
		// If publishing the CAs failed in the previous step, try again before the next step.
		if err := c.publish(ctx); err != nil {
			return 0, err
		}
		seen.Data, seen.Bundles, seen.TrustedFor = c.set.Data(), [][]byte{c.published}, seen.Now.Sub(c.since)
	}
	decision := policy.Decide(seen)
	if decision.Action == cert.Keep {
		if len(c.set.Previous) > 0 {
			decision.After = min(decision.After, retired.Sub(now))
		}
		return max(decision.After, time.Second), nil
	}
	if c.set, err = policy.Carry(decision, seen); err != nil {
		return 0, err
	}
	if err := c.use(); err != nil {
		return 0, err
	}
	return 0, c.publish(ctx)
}

// use makes the current pair of the set the certificate of the server.
func (c *Certificates) use() error {
	pair, err := tls.X509KeyPair(c.set.Current.Certificate, c.set.Current.Key.PEM())
	if err != nil {
		return errors.New("the issued certificate and its key do not match") // err might contain the key
	}
	if now := c.current.Load(); now == nil || !bytes.Equal(now.Certificate[0], pair.Certificate[0]) {
		c.used = c.Clock.Now()
	}
	c.current.Store(&pair)
	if c.Use != nil {
		c.Use(c.set.Current.Certificate, c.set.Current.Key.PEM())
	}
	return nil
}

// publish publishes the CAs of the set, unless they are already published.
func (c *Certificates) publish(ctx context.Context) error {
	bundle := c.set.Trust()
	if string(bundle) == string(c.published) {
		return nil
	}
	if err := c.Publish(ctx, bundle); err != nil {
		return fmt.Errorf("publish the CA: %w", err)
	}
	c.published, c.since = bundle, c.Clock.Now()
	return nil
}
