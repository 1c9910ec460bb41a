package scoped

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env/controlplane"
)

// another enrolls another account in the same namespace.
func (w *world) another(name string) Account {
	w.t.Helper()
	account := w.serviceAccount(w.account.Namespace, name)
	for _, obj := range Enrollment(account.Key(), account.Namespace) {
		require.NoError(w.t, w.admin.Create(w.t.Context(), obj))
	}
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		_, err := w.clients.For(w.t.Context(), account)
		require.NoError(c, err)
	}, time.Minute, 20*time.Millisecond)
	return account
}

// userOf returns the user name that the API server authenticates.
func userOf(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := c.Create(ctx, review)
	return review.Status.UserInfo.Username, err
}

func TestAClientSendsItsRequestsAsItsOwnAccountOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	accounts := []Account{w.account, w.another("other")}
	var clients []client.Client
	for _, account := range accounts {
		c, err := w.clients.For(t.Context(), account)
		require.NoError(t, err)
		clients = append(clients, c)
	}
	// Both clients send at the same time, and each gets a context that belongs to the other one.
	errs := make(chan error)
	for i, c := range clients {
		ctx := clients[1-i].(*accountClient).as(t.Context())
		want := Username(accounts[i].Namespace, accounts[i].Name)
		for range 20 {
			go func() {
				got, err := userOf(ctx, c)
				if err == nil && got != want {
					err = fmt.Errorf("the client of %s is %s", want, got)
				}
				errs <- err
			}()
		}
	}
	for range 20 * len(clients) {
		require.NoError(t, <-errs)
	}
}

func TestAForgottenClientIsRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	before, err := w.clients.For(t.Context(), w.account)
	require.NoError(t, err)
	w.clients.Forget(w.account.Key())
	after, err := w.clients.For(t.Context(), w.account)
	require.NoError(t, err)
	require.NotSame(t, before, after)
	user, err := userOf(t.Context(), after)
	require.NoError(t, err)
	require.Equal(t, w.user(), user)
}

func TestDropsClientsThatAreNoLongerUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, row := range []struct {
		after time.Duration
		use   string
		want  []string
	}{
		{0, "a", []string{"a"}},
		{keepUnused, "b", []string{"a", "b"}},
		{keepUnused, "b", []string{"b"}},
		{0, "c", []string{"b", "c"}},
		{keepUnused + time.Second, "d", []string{"d"}},
	} {
		w.clock.SetTime(w.clock.Now().Add(row.after))
		_, err := w.clients.Open(Account{Namespace: w.account.Namespace, Name: row.use, UID: "a"})
		require.NoError(t, err)
		w.clients.sweep()
		var got []string
		for _, e := range known(w.clients) {
			got = append(got, e.identity.Account.Name)
		}
		require.ElementsMatch(t, row.want, got)
		require.True(t, sweeps(w.clients))
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.clients.sweep()
	require.Empty(t, known(w.clients))
	require.False(t, sweeps(w.clients), "no timer runs without clients")
}

// A recreated account has another UID, and the token of the deleted one is not valid for it.
func TestARecreatedAccountHasItsOwnClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deleted, recreated := w.account, w.account
	deleted.UID, recreated.UID = "deleted", "recreated"
	before, err := w.clients.Open(deleted)
	require.NoError(t, err)
	after, err := w.clients.Open(recreated)
	require.NoError(t, err)
	require.NotSame(t, before, after)
	again, err := w.clients.Open(recreated)
	require.NoError(t, err)
	require.Same(t, after, again)
	require.Len(t, known(w.clients), 1, "the token of the deleted account is dropped")
}

func TestAccountsShareConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	base := rest.CopyConfig(w.clients.options.Base)
	var dialed atomic.Int32
	base.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	base.WrapTransport = nil
	var err error
	w.clients, err = NewClients(Options{Base: base, Scheme: clientgoscheme.Scheme, Mapper: mapper()})
	require.NoError(t, err)
	for i := range 5 {
		c, err := w.clients.For(t.Context(), w.another(fmt.Sprint("account-", i)))
		require.NoError(t, err)
		_, err = userOf(t.Context(), c)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, dialed.Load(), "one connection for the controller identity, and one for all accounts")
}

// sent records the methods and paths of requests, and refuses them.
type sent []string

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	*s = append(*s, req.Method+" "+req.URL.RequestURI())
	return nil, closeBody(req, errNoSender)
}

func TestEveryMethodSendsAsTheAccount(t *testing.T) {
	t.Parallel()
	clients, err := NewClients(Options{Base: controlplane.Shared(t).Config(), Scheme: clientgoscheme.Scheme, Mapper: mapper()})
	require.NoError(t, err)
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	patch, apply := client.MergeFrom(obj.DeepCopy()), corev1apply.ConfigMap("b", "a")
	calls := map[string]func(c client.WithWatch) error{
		"GET /api/v1/namespaces/a/configmaps/b":  func(c client.WithWatch) error { return c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) },
		"GET /api/v1/configmaps":                 func(c client.WithWatch) error { return c.List(t.Context(), &corev1.ConfigMapList{}) },
		"POST /api/v1/namespaces/a/configmaps":   func(c client.WithWatch) error { return c.Create(t.Context(), obj) },
		"PUT /api/v1/namespaces/a/configmaps/b":  func(c client.WithWatch) error { return c.Update(t.Context(), obj) },
		"DELETE /api/v1/namespaces/a/configmaps": func(c client.WithWatch) error { return c.DeleteAllOf(t.Context(), obj, client.InNamespace("a")) },
		"DELETE /api/v1/namespaces/a/configmaps/b": func(c client.WithWatch) error {
			return c.Delete(t.Context(), obj)
		},
		"PATCH /api/v1/namespaces/a/configmaps/b": func(c client.WithWatch) error {
			return c.Patch(t.Context(), obj, patch)
		},
		"PATCH /api/v1/namespaces/a/configmaps/b?fieldManager=x": func(c client.WithWatch) error {
			return c.Apply(t.Context(), apply, client.FieldOwner("x"))
		},
		"GET /api/v1/configmaps?watch=true": func(c client.WithWatch) error {
			_, err := c.Watch(t.Context(), &corev1.ConfigMapList{})
			return err
		},
		"PUT /api/v1/namespaces/a/configmaps/b/status":   func(c client.WithWatch) error { return c.Status().Update(t.Context(), obj) },
		"PATCH /api/v1/namespaces/a/configmaps/b/status": func(c client.WithWatch) error { return c.Status().Patch(t.Context(), obj, patch) },
		"PATCH /api/v1/namespaces/a/configmaps/b/status?fieldManager=x": func(c client.WithWatch) error {
			return c.Status().Apply(t.Context(), apply, client.FieldOwner("x"))
		},
		"GET /api/v1/namespaces/a/configmaps/b/scale":  func(c client.WithWatch) error { return c.SubResource("scale").Get(t.Context(), obj, obj) },
		"POST /api/v1/namespaces/a/configmaps/b/scale": func(c client.WithWatch) error { return c.SubResource("scale").Create(t.Context(), obj, obj) },
	}
	for want, call := range calls {
		var got sent
		require.ErrorIs(t, call(&accountClient{WithWatch: clients.shared, sender: &got}), errNoSender)
		require.Equal(t, sent{want}, got)
		require.ErrorIs(t, call(clients.shared), errNoSender, "without an account, nothing is sent")
	}
}
