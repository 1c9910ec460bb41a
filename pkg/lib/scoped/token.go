package scoped

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

const (
	// tokenLifetime is the requested lifetime; the API server can grant a different one. docs/adr/0002 allows
	// 10 to 60 minutes.
	tokenLifetime = 30 * time.Minute
	// refreshAt is the fraction of a token's lifetime after which the token is replaced.
	refreshAt = 0.8
)

// tokenSource contains the token of one account. Only the transport can access the token, which is never logged.
type tokenSource struct {
	account Account
	mint    corev1client.ServiceAccountsGetter
	clock   clock.PassiveClock

	mu      sync.Mutex
	token   string
	refresh time.Time
}

// get returns a token that is not due for refresh. It requests a new token if there is none.
func (s *tokenSource) get(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && s.clock.Now().Before(s.refresh) {
		return s.token, nil
	}
	requested := s.clock.Now()
	answer, err := s.mint.ServiceAccounts(s.account.Namespace).CreateToken(ctx, s.account.Name,
		&authenticationv1.TokenRequest{
			ObjectMeta: metav1.ObjectMeta{UID: s.account.UID},
			Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLifetime / time.Second))},
		}, metav1.CreateOptions{})
	if err != nil {
		s.token = ""
		return "", mintError(s.account, err)
	}
	life := answer.Status.ExpirationTimestamp.Sub(requested)
	s.token = answer.Status.Token
	s.refresh = requested.Add(time.Duration(float64(life) * refreshAt))
	return s.token, nil
}

// drop removes the refused token unless it was already replaced.
func (s *tokenSource) drop(refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == refused {
		s.token = ""
	}
}

func mintError(a Account, err error) error {
	problem := func(reason Reason, format string, args ...any) error {
		return &Error{Reason: reason, Namespace: a.Namespace, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case apierrors.IsForbidden(err):
		return NotEnrolled(a)
	case apierrors.IsConflict(err):
		return problem(AccountChanged, "ServiceAccount %s was deleted and recreated", a.Key())
	case apierrors.IsNotFound(err):
		return problem(AccountMissing, "ServiceAccount %s not found", a.Name)
	}
	return fmt.Errorf("request a token for ServiceAccount %s: %w", a.Key(), err)
}

// transport authenticates requests as the account. After a 401 response, it retries the request once with a new token.
type transport struct {
	source *tokenSource
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.source.get(req.Context())
	if err != nil {
		return nil, closeBody(req, err)
	}
	resp, err := t.next.RoundTrip(authenticated(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	t.source.drop(token)
	again, ok := rewound(req)
	if !ok {
		return resp, nil
	}
	fresh, err := t.source.get(req.Context())
	if err != nil {
		return resp, nil // the 401 response is more useful than this error
	}
	_ = resp.Body.Close()
	return t.next.RoundTrip(authenticated(again, fresh))
}

func authenticated(req *http.Request, token string) *http.Request {
	out := req.Clone(req.Context())
	out.Header.Set("Authorization", "Bearer "+token)
	return out
}

// rewound returns the request with its body reset to the start. It returns false if the body cannot be read again.
func rewound(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	out := req.Clone(req.Context())
	out.Body = body
	return out, true
}

func closeBody(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return err
}
