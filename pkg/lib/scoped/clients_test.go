package scoped

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// world is a namespace in a real API server with the account "acct", and Clients whose controller identity can only
// request tokens for the account, and only if the account is enrolled.
type world struct {
	t       *testing.T
	admin   client.Client
	clients *Clients
	clock   *testclock.FakePassiveClock
	account Account
	// mu protects minted, which contains the method and path of each token request.
	mu     sync.Mutex
	minted []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := controlplane.Shared(t).Config()
	admin, err := client.New(config, client.Options{})
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scoped-"}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	w := &world{t: t, admin: admin, clock: testclock.NewFakePassiveClock(time.Now())}
	w.account = w.serviceAccount(namespace.Name, "acct")
	controller := w.serviceAccount(namespace.Name, names.ServiceAccountCatalog)

	base := rest.CopyConfig(config)
	base.Impersonate = rest.ImpersonationConfig{UserName: Username(controller.Namespace, controller.Name)}
	base.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return &recorder{w, next} }
	w.clients, err = NewClients(Options{Base: base, Scheme: clientgoscheme.Scheme, Mapper: mapper(), Clock: w.clock, UserAgent: "test-agent"})
	require.NoError(t, err)
	return w
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	return m
}

type recorder struct {
	w    *world
	next http.RoundTripper
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.w.mu.Lock()
	r.w.minted = append(r.w.minted, req.Method+" "+req.URL.Path)
	r.w.mu.Unlock()
	return r.next.RoundTrip(req)
}

func (w *world) serviceAccount(namespace, name string) Account {
	w.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(w.t, w.admin.Create(w.t.Context(), sa))
	return Account{Namespace: namespace, Name: name, UID: sa.UID}
}

// enroll allows the controller identity to request tokens for the account, and waits until the API server observes the
// grant.
func (w *world) enroll() *world {
	w.t.Helper()
	for _, obj := range Enrollment(w.account.Key(), w.account.Namespace) {
		require.NoError(w.t, w.admin.Create(w.t.Context(), obj))
	}
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		_, err := w.clients.For(w.t.Context(), w.account)
		require.NoError(c, err)
	}, time.Minute, 20*time.Millisecond)
	w.clients.Forget(w.account.Key())
	w.minted = nil
	return w
}

func (w *world) whoami() (string, error) {
	c, err := w.clients.For(w.t.Context(), w.account)
	if err != nil {
		return "", err
	}
	review := &authenticationv1.SelfSubjectReview{}
	err = c.Create(w.t.Context(), review)
	return review.Status.UserInfo.Username, err
}

func (w *world) user() string { return Username(w.account.Namespace, w.account.Name) }

func (w *world) mints() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.minted)
}

func (w *world) source() *tokenSource { return known(w.clients)[w.user()].source }

// known returns the clients. A timer may remove some of them at the same time.
func known(c *Clients) map[string]*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.entries)
}

// sweeps reports whether a timer will remove unused clients.
func sweeps(c *Clients) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sweeping
}

func TestClientsAuthenticateAsTheAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	for range 3 {
		user, err := w.whoami()
		require.NoError(t, err)
		require.Equal(t, w.user(), user)
	}
	path := fmt.Sprintf("POST /api/v1/namespaces/%s/serviceaccounts/acct/token", w.account.Namespace)
	require.Equal(t, []string{path}, w.minted, "all requests use one token")

	c, err := w.clients.For(t.Context(), w.account)
	require.NoError(t, err)
	err = c.Get(t.Context(), client.ObjectKey{Namespace: w.account.Namespace, Name: "x"}, &corev1.ConfigMap{})
	require.ErrorContains(t, err, w.user(), "the account's permissions apply, not the controller identity's")
}

func TestReportsAnAccountThatIsNotEnrolled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.whoami()
	require.Equal(t, AccountNotEnrolled, ReasonOf(err))
	require.ErrorContains(t, err, "grant create on serviceaccounts/token with resourceNames [acct] in namespace "+w.account.Namespace)
}

func TestEnrollmentAppliesToOneAccountOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	w.account = w.serviceAccount(w.account.Namespace, "boss")
	_, err := w.whoami()
	require.Equal(t, AccountNotEnrolled, ReasonOf(err))
}

func TestARecreatedAccountIsADifferentAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	w.account.UID = types.UID("11111111-2222-3333-4444-555555555555")
	_, err := w.whoami()
	require.Equal(t, AccountChanged, ReasonOf(err))
	require.ErrorContains(t, err, "was deleted and recreated")
}

func TestADeletedAccountIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	require.NoError(t, w.admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.account.Namespace, Name: "acct"}}))
	_, err := w.whoami()
	require.Equal(t, AccountMissing, ReasonOf(err))
}

func TestRefreshesATokenAfter80PercentOfItsLifetime(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	for _, row := range []struct {
		after time.Duration
		mints int
	}{{0, 1}, {23 * time.Minute, 1}, {25 * time.Minute, 2}, {25 * time.Minute, 2}} {
		w.clock.SetTime(time.Now().Add(row.after))
		_, err := w.whoami()
		require.NoError(t, err)
		require.Equal(t, row.mints, w.mints(), "after %s", row.after)
	}
}

func TestRetriesWithANewTokenAfterA401(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	_, err := w.whoami()
	require.NoError(t, err)
	w.source().token = "refused"

	user, err := w.whoami() // a request with a body
	require.NoError(t, err)
	require.Equal(t, w.user(), user)
	require.Equal(t, 2, w.mints())
}

func TestForgetDropsTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	for range 2 {
		_, err := w.whoami()
		require.NoError(t, err)
		w.clients.Forget(w.account.Key())
		require.Empty(t, known(w.clients))
	}
	require.Equal(t, 2, w.mints())
	w.clients.Forget(types.NamespacedName{Namespace: "x", Name: "unknown"})
}

func TestARevocationTakesEffectWhenTheTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	_, err := w.whoami()
	require.NoError(t, err)
	require.NoError(t, w.admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(w.account.Namespace)))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		_, err := w.whoami()
		require.Equal(c, AccountNotEnrolled, ReasonOf(err))
	}, time.Minute, 20*time.Millisecond)
	require.Empty(t, w.source().token)
}

// answers is a transport that returns responses with these status codes, one per request, or an error for 0.
type answers []int

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	code := (*a)[0]
	*a = (*a)[1:]
	if code == 0 {
		return nil, fmt.Errorf("connection reset")
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
}

func TestErrorsDoNotContainTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	_, err := w.whoami()
	require.NoError(t, err)
	token := w.source().token
	require.NotEmpty(t, token)

	for _, a := range []answers{{0}, {401, 0}, {500}} {
		config := w.clients.anonymous()
		config.TLSClientConfig = rest.TLSClientConfig{}
		config.Transport = &transport{source: w.source(), next: &a}
		c, err := client.New(config, client.Options{Mapper: mapper()})
		require.NoError(t, err)
		err = c.Create(t.Context(), &authenticationv1.SelfSubjectReview{})
		require.Error(t, err)
		require.NotContains(t, fmt.Sprintf("%+v", err), token)
		require.NotContains(t, fmt.Sprintf("%+v", err), w.source().token)
	}
}

func TestDoesNotSendTheControllersCredentialsAsTheAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.clients.anonymous()
	require.Empty(t, config.BearerToken)
	require.Empty(t, config.BearerTokenFile)
	require.Empty(t, config.Impersonate.UserName)
	require.Empty(t, config.CertData)
	require.Empty(t, config.KeyData)
	require.Nil(t, config.WrapTransport)
	require.Equal(t, "test-agent", config.UserAgent)
}

func TestNewClientsValidatesItsOptions(t *testing.T) {
	_, err := NewClients(Options{})
	require.EqualError(t, err, "scoped: Base, Scheme and Mapper are required")
}
