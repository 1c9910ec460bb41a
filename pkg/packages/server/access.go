package server

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/remit-olm/remit/pkg/lib/listen"
)

// onlyWriter denies every write by other users before the delegate is asked and before anything is read, so that they cannot
// occupy maxWrites. Permissions in the cluster are not enough: a tenant who may do everything in a namespace may also update
// the packagecatalogs in it, and one of them, complete, concerns all namespaces.
type onlyWriter struct {
	name     string
	delegate authorizer.Authorizer
}

// Authorize implements authorizer.Authorizer.
func (w onlyWriter) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if writes(a) && (a.GetUser() == nil || a.GetUser().GetName() != w.name) {
		return authorizer.DecisionDeny, "only the catalog program can send catalogs", nil
	}
	return w.delegate.Authorize(ctx, a)
}

// writes reports whether a request changes an object.
func writes(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && !a.IsReadOnly() && a.GetVerb() != "impersonate"
}

// withServed returns a handler for authorized requests. A client that has identified itself can continue to send, and the
// catalog program, which sends large catalogs, is not limited.
func withServed(h http.Handler, l *listen.Listener, writer string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := genericrequest.UserFrom(r.Context())
		switch {
		case ok && u.GetName() == writer:
			l.Trust(r.RemoteAddr)
		case ok && u.GetName() != user.Anonymous:
			l.Served(r.RemoteAddr)
		}
		h.ServeHTTP(w, r)
	})
}

// withTrust returns a handler that exempts the connections of the kube-apiserver from the limits: those with a client
// certificate that authenticates a front proxy. The kube-apiserver limits its own clients.
func withTrust(h http.Handler, l *listen.Listener, proxy *authenticatorfactory.RequestHeaderConfig) http.Handler {
	if proxy == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.IsTrusted(r.RemoteAddr) && isFrontProxy(r, proxy) {
			l.Trust(r.RemoteAddr)
		}
		h.ServeHTTP(w, r)
	})
}

// isFrontProxy reports whether a request was sent on a connection of a front proxy.
func isFrontProxy(r *http.Request, proxy *authenticatorfactory.RequestHeaderConfig) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	options, ok := proxy.CAContentProvider.VerifyOptions()
	if !ok {
		return false
	}
	leaf := r.TLS.PeerCertificates[0]
	options.Intermediates = x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		return false
	}
	names := proxy.AllowedClientNames.Value()
	return len(names) == 0 || slices.Contains(names, leaf.Subject.CommonName)
}
