package scopedcache_test

import (
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// The connection of a watch stays open, but no more data is received.
func TestAStalledWatchIsReplaced(t *testing.T) {
	t.Parallel()
	for name, resumed := range map[string]bool{"after its list": false, "after it was resumed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t, rechecking)
			x := w.namespace()
			w.grant(x, all)
			w.grantOn("", "configmaps", x, all)
			w.secret(x, "a")
			o := owner("o")
			stalled := make(chan *valve, 1)
			w.log.pass(func(r *http.Request, from io.ReadCloser) io.ReadCloser {
				if describe(r) != "watch secrets "+x || resumed != (r.URL.Query().Get("sendInitialEvents") == "") {
					return from
				}
				w.log.through = nil // the caller holds the mutex of the log
				v := newValve(from)
				v.set(false)
				stalled <- v
				return v
			})
			w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
			v := <-stalled
			v.set(true)
			w.secret(x, "b")
			w.claim(o, scopedcache.Live, scopedcache.Claim{Kind: &corev1.ConfigMap{}, Scope: scopedcache.Namespace(x)})
			require.NoError(t, w.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(x)), "other kinds are not affected")
			_, err := w.read(x, "a")
			require.NoError(t, err)
			w.eventually(func(ct *assert.CollectT) {
				_, err := w.read(x, "b")
				assert.NoError(ct, err)
			})
			require.True(t, v.ended(), "the stalled watch was stopped")
		})
	}
}

// The API server is killed and restarted with the same data at another address.
func TestTheAPIServerRestarts(t *testing.T) {
	t.Parallel()
	w := &world{T: t, log: &requestLog{}, user: "restarted"}
	dir := t.TempDir()
	var server *controlplane.Instance
	var connected atomic.Pointer[roundTripper]
	launch := func() {
		var err error
		server, err = controlplane.Launch(t.Context(), controlplane.Options{Dir: dir})
		require.NoError(t, err)
		w.admin, err = client.New(server.Config(), client.Options{})
		require.NoError(t, err)
		config := server.Config()
		config.Impersonate = rest.ImpersonationConfig{UserName: w.user}
		transport, err := rest.TransportFor(config)
		require.NoError(t, err)
		host, err := url.Parse(config.Host)
		require.NoError(t, err)
		to := roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Scheme, r.URL.Host = host.Scheme, host.Host
			return transport.RoundTrip(r)
		})
		connected.Store(&to)
	}
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	launch()
	transport := w.log.wrap(roundTripper(func(r *http.Request) (*http.Response, error) { return (*connected.Load())(r) }))
	var err error
	w.Cache, err = scopedcache.New(&rest.Config{Host: "http://restarting", QPS: -1}, scopedcache.Options{
		HTTPClient: &http.Client{Transport: transport}, Linger: -1, Retry: scopedcache.Retry{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond},
	})
	require.NoError(t, err)
	w.start()
	x, y := w.namespace(), w.namespace()
	revoke := w.grant(x, all)
	w.grant(y, all)
	for _, name := range []string{"kept", "deleted"} {
		w.secret(x, name)
	}
	o := owner("o")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Object(y, "a")))

	require.NoError(t, syscall.Kill(server.PID, syscall.SIGKILL))
	<-server.Done()
	require.Error(t, server.Stop(), "the API server was killed")
	for _, scope := range []scopedcache.Scope{scopedcache.Namespace(x), scopedcache.Object(y, "a")} {
		w.becomes(o, scope, scopedcache.Backoff)
	}
	_, err = w.read(x, "kept")
	require.NoError(t, err, "what is known stays readable")
	_, err = w.read(y, "a")
	requireNotSynced(t, err)

	launch()
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "deleted"}}))
	w.secret(y, "a")
	for _, scope := range []scopedcache.Scope{scopedcache.Namespace(x), scopedcache.Object(y, "a")} {
		w.becomes(o, scope, scopedcache.Live)
	}
	// A server that has just started may refuse requests that it allows a moment later, so handlers may receive add events for
	// the same objects again.
	w.eventually(func(ct *assert.CollectT) {
		for key, exists := range map[client.ObjectKey]bool{{Namespace: x, Name: "kept"}: true, {Namespace: x, Name: "deleted"}: false, {Namespace: y, Name: "a"}: true} {
			_, err := w.read(key.Namespace, key.Name)
			assert.Equal(ct, exists, err == nil, "%s: %v", key, err)
			assert.Equal(ct, !exists, apierrors.IsNotFound(err), "%s: %v", key, err)
		}
	})
	w.watches(x, y+"/a")
	revoke()
	w.eventually(func(ct *assert.CollectT) {
		w.Recheck(x)
		_, err := w.read(x, "kept")
		assert.True(ct, apierrors.IsForbidden(err), "%v", err)
	})
}

// The token of the cache's identity is revoked and later replaced.
func TestARevokedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	x := w.namespace()
	w.secret(x, "a")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "operator"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "operator"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: all}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "operator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: x, Name: "operator"}},
	}
	require.NoError(t, w.admin.Create(t.Context(), role))
	require.NoError(t, w.admin.Create(t.Context(), binding))
	var token atomic.Pointer[string]
	enroll := func() {
		account.ResourceVersion, account.UID = "", ""
		require.NoError(t, w.admin.Create(t.Context(), account))
		request := &authenticationv1.TokenRequest{}
		require.NoError(t, w.admin.SubResource("token").Create(t.Context(), account, request))
		token.Store(&request.Status.Token)
	}
	enroll()
	config := rest.AnonymousClientConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{}
	config.Wrap(w.log.wrap)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+*token.Load())
			return next.RoundTrip(r)
		})
	})
	var err error
	w.Cache, err = scopedcache.New(config, scopedcache.Options{Linger: -1, RecheckPeriod: time.Second, Retry: scopedcache.Retry{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond}})
	require.NoError(t, err)
	w.start()
	o := owner("o")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	e := w.handle(&corev1.Secret{})

	require.NoError(t, w.admin.Delete(t.Context(), account))
	w.eventually(func(ct *assert.CollectT) {
		status := w.Status(o)[0]
		assert.Equal(ct, scopedcache.Backoff, status.State)
		assert.Contains(ct, status.Reason, "Unauthorized")
	})
	_, err = w.read(x, "a")
	require.NoError(t, err, "what is known stays readable")
	_, err = w.read(x, "b")
	requireNotSynced(t, err)
	require.ErrorContains(t, err, "Unauthorized")
	require.False(t, apierrors.IsForbidden(err))
	w.secret(x, "b")

	enroll()
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
	w.eventually(func(ct *assert.CollectT) {
		_, err := w.read(x, "b")
		assert.NoError(ct, err)
	})
	e.become(w, "add a", "add b")
}
