package scoped

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// openSynthetic creates the client of a synthetic user. It impersonates the user with the credentials, and through the
// connections, of the controller identity.
func (c *Clients) openSynthetic(identity Identity) (*entry, error) {
	if err := identity.validateExtension(); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(c.options.Base)
	if config.Impersonate.UserName != "" {
		return nil, errors.New("the controller identity must not be impersonated itself")
	}
	c.configure(config)
	i := &impersonator{identity: identity}
	// The first wrapper is the innermost one, so no other wrapper changes a request after the impersonator.
	config.WrapTransport = clienttransport.Wrappers(i.wrap, config.WrapTransport)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	reviews, err := authenticationv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	i.reviews = reviews.SelfSubjectReviews()
	typed, err := c.client(config, httpClient)
	if err != nil {
		return nil, err
	}
	connect := func() (*rest.Config, *http.Client, error) { return rest.CopyConfig(config), httpClient, nil }
	return &entry{identity: identity, check: i.check, client: typed, connect: connect}, nil
}

// impersonator sends requests as a synthetic user.
type impersonator struct {
	identity Identity
	reviews  authenticationv1client.SelfSubjectReviewInterface
	// usable is true after a successful check, until the API server refuses a request.
	usable atomic.Bool
}

func (i *impersonator) wrap(next http.RoundTripper) http.RoundTripper {
	return &impersonating{impersonator: i, next: next}
}

// check returns an *Error if Remit is not allowed to impersonate the user. It sends a request to find out, because it
// does not know which forms of impersonation the API server supports. It also compares the user's groups with those
// that preflight evaluates.
func (i *impersonator) check(ctx context.Context) error {
	if i.usable.Load() {
		return nil
	}
	review, err := i.reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return NotEnrolledExtension(i.identity, err)
	case err != nil:
		return fmt.Errorf("impersonate %s: %w", i.identity, err)
	}
	got, groups := review.Status.UserInfo, i.identity.Groups()
	slices.Sort(got.Groups)
	slices.Sort(groups)
	if got.Username != i.identity.Username() || got.UID != "" || len(got.Extra) > 0 || !slices.Equal(got.Groups, groups) {
		return fmt.Errorf("impersonate %s: the API server authenticates user %q in groups %q instead", i.identity, got.Username, got.Groups)
	}
	i.usable.Store(true)
	return nil
}

// impersonating is the transport of an impersonator.
type impersonating struct {
	*impersonator
	next http.RoundTripper
}

// headerPrefix is the prefix of all headers that select the impersonated user.
const headerPrefix = "impersonate-"

// RoundTrip implements http.RoundTripper. It replaces all impersonation headers of the request, so that no caller can
// add groups or other properties of the user.
func (t *impersonating) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	for name := range out.Header {
		if strings.HasPrefix(strings.ToLower(name), headerPrefix) {
			delete(out.Header, name)
		}
	}
	out.Header.Set(authenticationv1.ImpersonateUserHeader, t.identity.Username())
	out.Header.Set(authenticationv1.ImpersonateGroupHeader, names.GroupExtensions)
	resp, err := t.next.RoundTrip(out)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		t.usable.Store(false) // the enrollment may have been revoked
	}
	return resp, err
}
