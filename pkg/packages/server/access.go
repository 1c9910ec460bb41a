package server

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/lib/listen"
)

// identified refuses requests without credentials, which delegated authentication accepts as anonymous, so that nothing is asked of
// the kube-apiserver for them. It has authorized those that it forwards.
type identified struct {
	authenticator.Request

	listener *listen.Listener
}

// AuthenticateRequest implements authenticator.Request.
func (a identified) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	got, ok, err := a.Request.AuthenticateRequest(r)
	if ok && got.User.GetName() == user.Anonymous && !a.listener.IsTrusted(r.RemoteAddr) {
		return nil, false, nil
	}
	return got, ok, err
}

// onlyWriter denies other users every access to packagecatalogs before the delegate is asked and before anything is read. Permissions
// in the cluster are not enough: a tenant who may do everything in a namespace may also update the packagecatalogs in it, and one of
// them, complete, concerns all namespaces. Watches of packagecatalogs have no limits.
type onlyWriter struct {
	name     string
	delegate authorizer.Authorizer
}

// Authorize implements authorizer.Authorizer.
func (w onlyWriter) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetResource() == packagesv1.ResourcePackageCatalogs && (a.GetUser() == nil || a.GetUser().GetName() != w.name) {
		return authorizer.DecisionDeny, "only the catalog program uses packagecatalogs", nil
	}
	return w.delegate.Authorize(ctx, a)
}

// maxReviews bounds the concurrent SubjectAccessReviews for one user. The reviews for all users share the rate of requests of this
// program.
const maxReviews = 4

// reviewed limits the SubjectAccessReviews for each user.
type reviewed struct {
	room     *room
	delegate authorizer.Authorizer
}

// Authorize implements authorizer.Authorizer.
func (l reviewed) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	own, leave := l.room.enter(ctx)
	defer leave()
	if err := own.reviews.Acquire(ctx, 1); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	defer own.reviews.Release(1)
	return l.delegate.Authorize(ctx, withoutSelectors{a})
}

// withoutSelectors asks for permission to read all objects, so that requests that differ only in their selectors need one
// SubjectAccessReview, which is cached.
type withoutSelectors struct{ authorizer.Attributes }

// GetFieldSelector implements authorizer.Attributes.
func (withoutSelectors) GetFieldSelector() (fields.Requirements, error) { return nil, nil }

// GetLabelSelector implements authorizer.Attributes.
func (withoutSelectors) GetLabelSelector() (labels.Requirements, error) { return nil, nil }

// withServed returns a handler for authorized requests, after which a client can continue to send.
func withServed(h http.Handler, l *listen.Listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.Served(r.RemoteAddr)
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
