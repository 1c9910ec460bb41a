package hooks

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// Linger is how long a server continues to serve after it was asked to stop, because callers notice the shutdown with
	// a delay.
	Linger = 3 * time.Second
	// reload is the minimum interval between checks of a certificate.
	reload = 200 * time.Millisecond
	// readTimeout is the timeout for reading a request.
	readTimeout = 10 * time.Second
)

// Server serves HTTPS with a certificate from files. It is a Runnable of a controller-runtime manager.
type Server struct {
	Address string
	// Certificate and Key are the paths of the files.
	Certificate, Key string
	Handler          http.Handler
	// ClientCertificates makes the server request client certificates, which the handler verifies.
	ClientCertificates bool
}

// Start serves until the context is done, and then continues for the duration Linger.
func (s Server) Start(ctx context.Context) error {
	files := &files{certificate: s.Certificate, key: s.Key}
	if _, err := files.get(nil); err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get}
	if s.ClientCertificates {
		config.ClientAuth = tls.RequestClientCert
	}
	server := &http.Server{Addr: s.Address, Handler: s.Handler, TLSConfig: config, ReadTimeout: readTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServeTLS("", "") }()
	log.FromContext(ctx).Info("Serving", "address", s.Address)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(Linger):
	}
	err := server.Shutdown(context.WithoutCancel(ctx))
	if failure := <-failed; !errors.Is(failure, http.ErrServerClosed) {
		err = errors.Join(err, failure)
	}
	return err
}

// Check is a healthz.Checker that succeeds if the server is listening.
func (s Server) Check(r *http.Request) error {
	conn, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", s.Address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// files loads a certificate and its key from files, and reloads them when they change.
type files struct {
	certificate, key string

	mu      sync.Mutex
	loaded  *tls.Certificate
	looked  time.Time
	changed time.Time
}

func (f *files) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded != nil && time.Since(f.looked) < reload {
		return f.loaded, nil
	}
	f.looked = time.Now()
	info, err := os.Stat(filepath.Clean(f.certificate))
	if err != nil || f.loaded != nil && info.ModTime().Equal(f.changed) {
		return f.loaded, f.ignoreIfLoaded(err)
	}
	pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return f.loaded, f.ignoreIfLoaded(err)
	}
	f.loaded, f.changed = &pair, info.ModTime()
	return f.loaded, nil
}

// ignoreIfLoaded returns nil if a certificate was loaded before, because that one remains in use. Otherwise, it returns
// err.
func (f *files) ignoreIfLoaded(err error) error {
	if f.loaded != nil {
		return nil
	}
	return err
}
