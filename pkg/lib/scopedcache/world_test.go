package scopedcache_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/racing"
)

// patience is the maximum time for which a test waits for an expected result.
const patience = racing.Slowdown * time.Minute

// settled is longer than the cache waits before it notifies owners of a change.
const settled = 150 * time.Millisecond

// world is a user of a real API server, and a cache that uses the user's identity.
type world struct {
	*testing.T
	admin  client.Client
	config *rest.Config
	user   string
	log    *requestLog
	*scopedcache.Cache
}

// setup changes the options of a world's cache.
type setup func(*scopedcache.Options)

func given(t *testing.T, setups ...setup) *world {
	t.Helper()
	w := prepare(t, setups...)
	w.start()
	return w
}

// prepare returns a world whose cache is not running yet.
func prepare(t *testing.T, setups ...setup) *world {
	t.Helper()
	config := controlplane.Shared(t).Config()
	admin, err := client.New(config, client.Options{})
	require.NoError(t, err)
	w := &world{T: t, admin: admin, user: "user-" + rand.String(8), log: &requestLog{}}
	w.config = rest.CopyConfig(config)
	w.config.QPS = -1
	w.config.Impersonate = rest.ImpersonationConfig{UserName: w.user}
	w.config.Wrap(w.log.wrap)
	options := scopedcache.Options{Linger: -1, Retry: scopedcache.Retry{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond}, ProbeQPS: 1000}
	for _, s := range setups {
		s(&options)
	}
	w.Cache, err = scopedcache.New(w.config, options)
	require.NoError(t, err)
	return w
}

func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(w, err)
		case <-time.After(patience):
			require.Fail(w, "the cache did not stop")
		}
	})
	require.True(w, w.WaitForCacheSync(ctx))
}

// namespace creates a namespace.
func (w *world) namespace() string {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scoped-"}}
	require.NoError(w, w.admin.Create(w.Context(), ns))
	return ns.Name
}

// secret creates a Secret.
func (w *world) secret(namespace, name string) *corev1.Secret {
	w.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"key": []byte(name)}}
	require.NoError(w, w.admin.Create(w.Context(), s))
	return s
}

// grant grants the user verbs on Secrets in a namespace, or in the cluster for "", and returns a function that revokes
// them. names restricts the grant to some Secrets. It waits until the API server's authorizer has observed the grant.
func (w *world) grant(namespace string, verbs []string, names ...string) (revoke func()) {
	w.Helper()
	return w.grantOn("", "secrets", namespace, verbs, names...)
}

func (w *world) grantOn(group, resource, namespace string, verbs []string, names ...string) (revoke func()) {
	w.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "grant-" + rand.String(8)}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs, ResourceNames: names}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: w.user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
	var role, binding client.Object = &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	if namespace == "" {
		ref.Kind = "ClusterRole"
		role, binding = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	}
	require.NoError(w, w.admin.Create(w.Context(), role))
	require.NoError(w, w.admin.Create(w.Context(), binding))
	attributes := authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: resource, Name: strings.Join(names[:min(1, len(names))], "")}
	w.eventually(func(ct *assert.CollectT) {
		for _, attributes.Verb = range verbs {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: w.user, ResourceAttributes: &attributes}}
			assert.NoError(ct, w.admin.Create(w.Context(), review))
			assert.True(ct, review.Status.Allowed)
		}
	})
	revoke = sync.OnceFunc(func() {
		require.NoError(w, client.IgnoreNotFound(w.admin.Delete(context.Background(), binding)))
		require.NoError(w, client.IgnoreNotFound(w.admin.Delete(context.Background(), role)))
	})
	w.Cleanup(revoke)
	return revoke
}

var all = []string{"list", "watch"}

// owner returns a reference to an owner with this name.
func owner(name string) scopedcache.OwnerRef {
	return scopedcache.OwnerRef{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Key: types.NamespacedName{Namespace: "owners", Name: name}, UID: types.UID(name)}
}

func secrets(scope scopedcache.Scope) scopedcache.Claim {
	return scopedcache.Claim{Kind: &corev1.Secret{}, Scope: scope}
}

// claim adds claims and waits until each of them is in the given state.
func (w *world) claim(o scopedcache.OwnerRef, state scopedcache.State, claims ...scopedcache.Claim) {
	w.Helper()
	w.Ensure(w.Context(), o, claims...)
	for _, c := range claims {
		w.becomes(o, c.Scope, state)
	}
}

// becomes waits until an owner's claim is in the given state.
func (w *world) becomes(o scopedcache.OwnerRef, scope scopedcache.Scope, state scopedcache.State) scopedcache.ClaimStatus {
	w.Helper()
	var got scopedcache.ClaimStatus
	w.eventually(func(t *assert.CollectT) {
		got = scopedcache.ClaimStatus{}
		for _, s := range w.Status(o) {
			if s.Claim.Scope == scope {
				got = s
			}
		}
		assert.Equal(t, state, got.State, "%s: %s", scope, got.Reason)
	})
	return got
}

// all waits until all claims of an owner are in the given state.
func (w *world) all(o scopedcache.OwnerRef, state scopedcache.State) {
	w.Helper()
	w.eventually(func(t *assert.CollectT) {
		others := map[scopedcache.State]int{}
		for _, s := range w.Status(o) {
			if s.State != state {
				others[s.State]++
			}
		}
		assert.Empty(t, others)
	})
}

func (w *world) eventually(check func(*assert.CollectT)) {
	w.Helper()
	require.EventuallyWithT(w, check, patience, 10*time.Millisecond)
}

func (w *world) read(namespace, name string) (*corev1.Secret, error) {
	out := &corev1.Secret{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, out)
	return out, err
}

func (w *world) names(opts ...client.ListOption) ([]string, error) {
	list := &corev1.SecretList{}
	err := w.List(w.Context(), list, opts...)
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names, err
}

// watches waits until exactly these watches of Secrets are open, each as "<namespace>" or "<namespace>/<name>".
func (w *world) watches(want ...string) {
	w.Helper()
	w.eventually(func(t *assert.CollectT) { assert.ElementsMatch(t, want, w.log.open("secrets")) })
}

// events contains the events that a handler received, as "add x", "update x" and "delete x".
type events struct {
	mu  sync.Mutex
	got []string
}

func (w *world) handle(obj client.Object) *events {
	w.Helper()
	informer, err := w.GetInformer(w.Context(), obj)
	require.NoError(w, err)
	e := &events{}
	add := func(what string, obj any) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.got = append(e.got, what+" "+obj.(client.Object).GetName())
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { add("add", obj) },
		UpdateFunc: func(_, obj any) { add("update", obj) },
		DeleteFunc: func(obj any) { add("delete", obj) },
	})
	require.NoError(w, err)
	w.eventually(func(t *assert.CollectT) { assert.True(t, handle.HasSynced()) })
	return e
}

// take returns the events since the last call.
func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	got := e.got
	e.got = nil
	return got
}

// requestLog records the requests of a client.
type requestLog struct {
	mu       sync.Mutex
	requests []string
	// lists is the number of requests that list. resumed is the number of watches that begin where another watch ended.
	lists, resumed int
	running        map[*http.Request]string
	// answer, if set, can respond to a request instead of the server.
	answer func(*http.Request) (*http.Response, error)
	// through, if set, can replace the body of the response to a watch.
	through func(*http.Request, io.ReadCloser) io.ReadCloser
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		text := describe(r)
		l.mu.Lock()
		l.requests = append(l.requests, text)
		if query := r.URL.Query(); query.Get("watch") == "" || query.Get("sendInitialEvents") != "" {
			l.lists++
		} else {
			l.resumed++
		}
		answer := l.answer
		l.mu.Unlock()
		if answer != nil {
			if response, err := answer(r); response != nil || err != nil {
				return response, err
			}
		}
		response, err := next.RoundTrip(r)
		if err != nil || r.URL.Query().Get("watch") == "" || response.StatusCode != http.StatusOK {
			return response, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running == nil {
			l.running = map[*http.Request]string{}
		}
		l.running[r] = text
		if l.through != nil {
			response.Body = l.through(r, response.Body)
		}
		response.Body = &body{ReadCloser: response.Body, closed: func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.running, r)
		}}
		return response, nil
	})
}

type body struct {
	io.ReadCloser
	closed func()
}

func (b *body) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// describe returns "<verb> <resource> <namespace>" or "<verb> <resource> <namespace>/<name>".
func describe(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	verb, namespace, resource, name := strings.ToLower(r.Method), "", "", ""
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		resource = parts[0]
	}
	if len(parts) > 1 {
		name = "/" + parts[1]
	}
	query := r.URL.Query()
	if selected, ok := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name="); ok {
		name = "/" + selected
	}
	switch {
	case query.Get("watch") != "":
		verb = "watch"
	case verb == "get" && len(parts) == 1:
		verb = "list"
	}
	return fmt.Sprintf("%s %s %s%s", verb, resource, namespace, name)
}

// take returns the requests for a resource since the last call.
func (l *requestLog) take(resource string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out, others []string
	for _, r := range l.requests {
		if strings.Split(r, " ")[1] == resource {
			out = append(out, r)
		} else {
			others = append(others, r)
		}
	}
	l.requests = others
	return out
}

// open returns the scopes of the open watches of a resource.
func (l *requestLog) open(resource string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for _, r := range l.running {
		if rest, ok := strings.CutPrefix(r, "watch "+resource+" "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// intercept responds to requests instead of the server until it is called with nil.
func (l *requestLog) intercept(answer func(*http.Request) (*http.Response, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// valve is the body of a response that returns no data while it is shut.
type valve struct {
	io.ReadCloser
	mu     sync.Mutex
	change *sync.Cond
	shut   bool
	closed bool
	got    []byte // data that was received but has not been read yet
	err    error
}

// newValve returns a shut valve.
func newValve(from io.ReadCloser) *valve {
	v := &valve{ReadCloser: from, shut: true}
	v.change = sync.NewCond(&v.mu)
	go v.fill()
	return v
}

func (v *valve) fill() {
	part := make([]byte, 1<<16)
	for {
		n, err := v.ReadCloser.Read(part)
		v.mu.Lock()
		v.got, v.err = append(v.got, part[:n]...), err
		v.change.Broadcast()
		v.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (v *valve) Read(to []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for !v.closed && (v.shut || len(v.got) == 0 && v.err == nil) {
		v.change.Wait()
	}
	switch {
	case v.closed:
		return 0, net.ErrClosed
	case len(v.got) > 0:
		n := copy(to, v.got)
		v.got = v.got[n:]
		return n, nil
	}
	return 0, v.err
}

func (v *valve) Close() error {
	v.mu.Lock()
	v.closed = true
	v.change.Broadcast()
	v.mu.Unlock()
	return v.ReadCloser.Close()
}

func (v *valve) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
	v.change.Broadcast()
}

// ended reports whether the reader has closed the body.
func (v *valve) ended() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.closed
}

// has reports whether a text has been received but not read yet.
func (v *valve) has(text string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return bytes.Contains(v.got, []byte(text))
}

// pass makes the log pass the responses of watches through a function, which is called with the log's mutex held.
func (l *requestLog) pass(through func(*http.Request, io.ReadCloser) io.ReadCloser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.through = through
}

// hold shuts the response of the next watch of a scope, given in the format of the log, and returns its valve.
func (w *world) hold(watch string) <-chan *valve {
	out := make(chan *valve, 1)
	w.log.pass(func(r *http.Request, from io.ReadCloser) io.ReadCloser {
		if describe(r) != "watch secrets "+watch {
			return from
		}
		w.log.through = nil // the caller holds the mutex of the log
		v := newValve(from)
		out <- v
		return v
	})
	return out
}

// listed waits until a watch whose valve is shut has received its initial list.
func (w *world) listed(held <-chan *valve) *valve {
	w.Helper()
	select {
	case v := <-held:
		w.eventually(func(t *assert.CollectT) { assert.True(t, v.has("initial-events-end")) })
		return v
	case <-time.After(patience):
		require.Fail(w, "there was no such watch")
		return nil
	}
}
