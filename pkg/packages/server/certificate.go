package server

import (
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Certificate is the serving certificate, which can be replaced while the server runs. The zero value contains no certificate.
type Certificate struct {
	mu               sync.Mutex
	certificate, key []byte
	listeners        []dynamiccertificates.Listener
	issued           chan struct{}
}

var _ dynamiccertificates.CertKeyContentProvider = &Certificate{}

// Set replaces the certificate. It has the signature of web.Certificates.Use.
func (c *Certificate) Set(certificate, key []byte) {
	c.mu.Lock()
	isFirst := c.certificate == nil
	c.certificate, c.key = certificate, key
	listeners := c.listeners
	c.mu.Unlock()
	if isFirst {
		close(c.Issued())
	}
	for _, l := range listeners {
		l.Enqueue()
	}
}

// Issued returns a channel that is closed when there is a certificate.
func (c *Certificate) Issued() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.issued == nil {
		c.issued = make(chan struct{})
	}
	return c.issued
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (*Certificate) Name() string { return "package-server" }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (c *Certificate) CurrentCertKeyContent() (certificate, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.certificate, c.key
}

// AddListener implements dynamiccertificates.Notifier.
func (c *Certificate) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}
