package authorizer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/remit-olm/remit/test/env"
)

// opinion decides on a request that RBAC does not allow. If broken is true, the webhook responds with an error.
type opinion func(a *authorizationv1.ResourceAttributes) (allowed bool, broken bool)

func allows(a *authorizationv1.ResourceAttributes) (bool, bool) { return a != nil, false }

func breaks(*authorizationv1.ResourceAttributes) (bool, bool) { return false, true }

// webhook is an authorizer that decides on requests from some users and has no opinion on all others.
type webhook struct {
	*httptest.Server
	mu       sync.Mutex
	opinions map[string]opinion
}

func newWebhook() *webhook {
	w := &webhook{opinions: map[string]opinion{}}
	w.Server = httptest.NewServer(w)
	return w
}

// about sets the decision for a tenant's account; nil means no opinion.
func (w *webhook) about(tn *env.Tenant, o opinion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opinions[username(tn)] = o
}

// ServeHTTP implements http.Handler.
func (w *webhook) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	review := &authorizationv1.SubjectAccessReview{}
	if err := json.NewDecoder(in.Body).Decode(review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	about := w.opinions[review.Spec.User]
	w.mu.Unlock()
	review.Status = authorizationv1.SubjectAccessReviewStatus{}
	if about != nil {
		allowed, broken := about(review.Spec.ResourceAttributes)
		if broken { // the API server retries other errors
			http.Error(out, "broken by the test", http.StatusBadRequest)
			return
		}
		review.Status.Allowed = allowed
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // the client may have disconnected
}
