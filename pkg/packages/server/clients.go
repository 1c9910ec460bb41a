package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/lib/listen"
)

const (
	// maxForwarded and maxForwardedUser bound the requests that the kube-apiserver forwards and that are waiting or being answered,
	// in total and for one user.
	maxForwarded, maxForwardedUser = 80, 16
	// maxDirect and maxDirectClient bound all other requests, in total and for one IP address.
	maxDirect, maxDirectClient = 32, 4
)

// quota bounds concurrent requests: most of them in total, and each for one client. A client can only have a quarter of what the
// others leave, so that a few clients cannot have all.
type quota struct {
	most, each int

	mu  sync.Mutex
	all int
	// of contains the number of requests by client.
	of map[string]int
}

func newQuota(most, each int) *quota { return &quota{most: most, each: each, of: map[string]int{}} }

// enter counts a request, or returns false if it exceeds the quota. The caller must call leave when the request ends.
func (q *quota) enter(client string) (leave func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.of[client]
	if q.all >= q.most || own >= max(1, min(q.each, (q.most-(q.all-own))/4)) {
		return nil, false
	}
	q.all++
	q.of[client]++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.all--
		if q.of[client]--; q.of[client] == 0 {
			delete(q.of, client)
		}
	}, true
}

// clients counts the concurrent requests of each client. Every Pod can send requests, and each of them waits for the
// kube-apiserver to authenticate and authorize it.
type clients struct {
	listener *listen.Listener
	// header reads the headers with which the kube-apiserver names the user of a request; it is nil if there is no front proxy.
	header authenticator.Request
	writer string
	// forwarded counts the requests that the kube-apiserver forwards, by user. direct counts all others, by IP address.
	forwarded, direct *quota
}

func newClients(l *listen.Listener, proxy *authenticatorfactory.RequestHeaderConfig, writer string) *clients {
	out := &clients{listener: l, writer: writer, forwarded: newQuota(maxForwarded, maxForwardedUser), direct: newQuota(maxDirect, maxDirectClient)}
	if proxy != nil {
		out.header = headerrequest.NewDynamic(proxy.UsernameHeaders, proxy.UIDHeaders, proxy.GroupHeaders, proxy.ExtraHeaderPrefixes)
	}
	return out
}

// enter counts a request, or returns false if its client has too many. It does not count those of the catalog program, nor those of
// the group system:masters: the kube-apiserver checks the API as a member of this group.
func (c *clients) enter(r *http.Request) (leave func(), ok bool) {
	from := c.user(r)
	switch {
	case from == nil:
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		return c.direct.enter(address)
	case from.GetName() == c.writer || slices.Contains(from.GetGroups(), user.SystemPrivilegedGroup):
		return func() {}, true
	}
	return c.forwarded.enter(userKey(from.GetName()))
}

// user returns the user for whom the kube-apiserver forwards a request, or nil. The headers of all other clients mean nothing.
func (c *clients) user(r *http.Request) user.Info {
	if c.header == nil || !c.listener.IsTrusted(r.RemoteAddr) {
		return nil
	}
	got, ok, err := c.header.AuthenticateRequest(&http.Request{Header: r.Header.Clone()}) // which removes the headers
	if err != nil || !ok {
		return nil
	}
	return got.User
}

// withClients returns a handler that refuses requests of clients that have too many. Nothing may wait in front of it.
func withClients(h http.Handler, c *clients) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := c.enter(r)
		if !ok {
			responsewriters.ErrorNegotiated(busy(), codecs, packagesv1.GroupVersion, w, r)
			return
		}
		leave = sync.OnceFunc(leave)
		defer leave()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), leaveKey{}, leave)))
	})
}

type leaveKey struct{}

// uncount stops counting a request that has other limits from now on.
func uncount(ctx context.Context) {
	if leave, ok := ctx.Value(leaveKey{}).(func()); ok {
		leave()
	}
}

// withHealth returns a handler in which the API itself answers health checks, without credentials, so that the kubelet does not
// restart the program while other requests wait or are refused.
func withHealth(h, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/livez", "/readyz":
			api.ServeHTTP(w, r)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
