package scoped

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// extensionWorld is a ClusterExtension's name, and Clients whose controller identity is authenticated with a token and
// has no permissions except those of an enrollment.
type extensionWorld struct {
	*testing.T
	admin      client.Client
	base       *rest.Config
	clients    *Clients
	identity   Identity
	namespace  string
	controller string
}

func newExtensionWorld(t *testing.T) *extensionWorld {
	t.Helper()
	t.Parallel()
	config := controlplane.Shared(t).Config()
	admin, err := client.New(config, client.Options{})
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scoped-"}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	w := &extensionWorld{T: t, admin: admin, namespace: namespace.Name, controller: Username(namespace.Name, names.ServiceAccountExtension)}
	w.identity = w.extension("demo-" + rand.String(8))

	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: names.ServiceAccountExtension}}
	w.create(sa)
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, admin.SubResource("token").Create(t.Context(), sa, token))
	w.base = rest.AnonymousClientConfig(config)
	w.base.BearerToken = token.Status.Token
	w.clients, err = NewClients(Options{Base: w.base, Scheme: clientgoscheme.Scheme, Mapper: mapper(), UserAgent: "test-agent"})
	require.NoError(t, err)
	return w
}

func (w *extensionWorld) extension(name string) Identity {
	w.Helper()
	identity, err := ExtensionIdentity(name)
	require.NoError(w, err)
	return identity
}

func (w *extensionWorld) create(obj client.Object) {
	w.Helper()
	require.NoError(w, w.admin.Create(w.Context(), obj))
	if obj.GetNamespace() == "" {
		w.Cleanup(func() { _ = w.admin.Delete(context.WithoutCancel(w.Context()), obj) })
	}
}

func (w *extensionWorld) eventually(check func(c *assert.CollectT)) {
	w.Helper()
	require.EventuallyWithT(w, check, time.Minute, 50*time.Millisecond)
}

// enroll enrolls the extension and waits until the API server observes the enrollment.
func (w *extensionWorld) enroll(how Impersonation) []client.Object {
	w.Helper()
	objs := ExtensionEnrollment(w.identity, w.namespace, how)
	for _, obj := range objs {
		w.create(obj)
	}
	w.eventually(func(c *assert.CollectT) {
		_, err := w.clients.As(w.Context(), w.identity)
		require.NoError(c, err)
	})
	return objs
}

// bind grants cluster-admin to the synthetic user.
func (w *extensionWorld) bind() {
	w.Helper()
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + w.identity.Extension}, Subjects: []rbacv1.Subject{w.identity.Subject()},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	})
}

// request is a request with the controller's token.
type request struct {
	method, path, contentType, body string
	headers                         http.Header
}

// impersonate returns headers for a user and groups.
func impersonate(user string, groups ...string) http.Header {
	return http.Header{"Impersonate-User": {user}, "Impersonate-Group": groups}
}

func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

// send sends the request without the impersonator, as a stolen token could be used, and returns the code and the body.
func (w *extensionWorld) send(r request) (int, string) {
	w.Helper()
	c, err := rest.HTTPClientFor(w.base)
	require.NoError(w, err)
	req, err := http.NewRequestWithContext(w.Context(), r.method, w.base.Host+r.path, strings.NewReader(r.body))
	require.NoError(w, err)
	for name, values := range r.headers {
		req.Header[name] = values
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	} else if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	require.NoError(w, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(w, err)
	return resp.StatusCode, string(text)
}

// whoami asks the API server which user it authenticates with these headers.
func (w *extensionWorld) whoami(headers http.Header) (int, authenticationv1.UserInfo) {
	w.Helper()
	code, text := w.send(request{
		method: http.MethodPost, path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", headers: headers,
		body: `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
	})
	review := authenticationv1.SelfSubjectReview{}
	if code == http.StatusCreated {
		require.NoError(w, json.Unmarshal([]byte(text), &review), text)
	}
	return code, review.Status.UserInfo
}

func eachForm(t *testing.T, test func(w *extensionWorld, how Impersonation)) {
	for _, how := range []Impersonation{ImpersonationConstrained, ImpersonationLegacy} {
		t.Run(string(how), func(t *testing.T) { test(newExtensionWorld(t), how) })
	}
}

func TestClientsImpersonateTheSyntheticUser(t *testing.T) {
	eachForm(t, func(w *extensionWorld, how Impersonation) {
		_, err := w.clients.As(w.Context(), w.identity)
		require.Equal(w, AccountNotEnrolled, ReasonOf(err))
		require.ErrorContains(w, err, "User "+w.identity.Username()+" is not enrolled")
		require.ErrorContains(w, err, "kubectl remit enroll clusterextension "+w.identity.Extension+" (")
		require.ErrorContains(w, err, w.controller)

		w.enroll(how)
		c, err := w.clients.As(w.Context(), w.identity)
		require.NoError(w, err)
		review := &authenticationv1.SelfSubjectReview{}
		require.NoError(w, c.Create(w.Context(), review))
		require.Equal(w, authenticationv1.UserInfo{Username: w.identity.Username(), Groups: w.identity.Groups()}, review.Status.UserInfo)
		key := client.ObjectKey{Namespace: w.namespace, Name: "x"}
		require.ErrorContains(w, c.Get(w.Context(), key, &corev1.ConfigMap{}), fmt.Sprintf("User %q cannot get", w.identity.Username()))
		w.bind()
		w.eventually(func(t *assert.CollectT) {
			require.ErrorContains(t, c.Get(w.Context(), key, &corev1.ConfigMap{}), "not found")
		})
	})
}

// The groups of both kinds of identities are those that the API server assigns, so preflight evaluates the same user.
func TestAccountsHaveTheGroupsThatTheAPIServerAssigns(t *testing.T) {
	t.Parallel()
	w := newWorld(t).enroll()
	c, err := w.clients.As(t.Context(), w.account.Identity())
	require.NoError(t, err)
	review := &authenticationv1.SelfSubjectReview{}
	require.NoError(t, c.Create(t.Context(), review))
	require.Equal(t, w.account.Identity().Username(), review.Status.UserInfo.Username)
	require.ElementsMatch(t, w.account.Identity().Groups(), review.Status.UserInfo.Groups)
}

// The token of the controller identity can be used to impersonate only the enrolled user.
func TestAnEnrollmentAllowsNoOtherUser(t *testing.T) {
	eachForm(t, func(w *extensionWorld, how Impersonation) {
		w.enroll(how)
		user := w.identity.Username()
		code, info := w.whoami(impersonate(user, names.GroupExtensions))
		require.Equal(w, http.StatusCreated, code)
		require.Equal(w, w.identity.Groups(), info.Groups)

		whole := impersonate(user, names.GroupExtensions)
		for name, headers := range map[string]http.Header{
			"another extension":           impersonate(names.UserExtensionPrefix+"other", names.GroupExtensions),
			"an extension with a suffix":  impersonate(user+"x", names.GroupExtensions),
			"an extension with a colon":   impersonate(user+":x", names.GroupExtensions),
			"the prefix":                  impersonate(names.UserExtensionPrefix, names.GroupExtensions),
			"the name in uppercase":       impersonate(strings.ToUpper(user), names.GroupExtensions),
			"every user":                  impersonate("*", names.GroupExtensions),
			"another group":               impersonate(user, "team-a"),
			"an additional group":         impersonate(user, names.GroupExtensions, "team-a"),
			"many groups":                 impersonate(user, names.GroupExtensions, "a", "b", "c", "d"),
			"system:masters":              impersonate(user, "system:masters"),
			"system:masters in addition":  impersonate(user, names.GroupExtensions, "system:masters"),
			"system:nodes":                impersonate(user, names.GroupExtensions, "system:nodes"),
			"all ServiceAccounts":         impersonate(user, "system:serviceaccounts"),
			"a UID":                       with(whole, "Impersonate-Uid", "1"),
			"an extra field":              with(whole, "Impersonate-Extra-Scopes.example.com", "all"),
			"a ServiceAccount":            impersonate(Username("kube-system", "default")),
			"its own ServiceAccount":      impersonate(w.controller),
			"a ServiceAccount in a group": impersonate(Username("kube-system", "default"), names.GroupExtensions),
			"a node":                      impersonate("system:node:n1"),
			"a node in a group":           impersonate("system:node:n1", names.GroupExtensions),
			"a component":                 impersonate("system:kube-controller-manager", names.GroupExtensions),
			"an administrator":            impersonate("admin", names.GroupExtensions),
			"the anonymous user":          impersonate("system:anonymous", names.GroupExtensions),
		} {
			code, info := w.whoami(headers)
			require.Equal(w, http.StatusForbidden, code, "%s: %v", name, info)
		}

		code, info = w.whoami(impersonate(user))
		require.Equal(w, http.StatusCreated, code, "the group is optional")
		require.Equal(w, []string{"system:authenticated"}, info.Groups)
	})
}

// A constrained enrollment limits the verbs, regardless of what the user is allowed to do.
func TestAConstrainedEnrollmentAllowsOnlyRemitsVerbs(t *testing.T) {
	eachForm(t, func(w *extensionWorld, how Impersonation) {
		w.enroll(how)
		w.bind()
		whole := impersonate(w.identity.Username(), names.GroupExtensions)
		maps := "/api/v1/namespaces/" + w.namespace + "/configmaps"
		object := func(name string) string {
			return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"b"}}`
		}
		send := func(method, path, body string) int {
			contentType := ""
			if method == http.MethodPatch {
				contentType = "application/apply-patch+yaml"
			}
			code, _ := w.send(request{method: method, path: path, contentType: contentType, body: body, headers: whole})
			return code
		}
		w.eventually(func(c *assert.CollectT) {
			require.Equal(c, http.StatusCreated, send(http.MethodPost, maps+"?dryRun=All", object("probe")))
		})
		token := "/api/v1/namespaces/" + w.namespace + "/serviceaccounts/" + names.ServiceAccountExtension + "/token"
		for _, row := range []struct {
			what, method, path, body string
			code                     int
		}{
			{"create", http.MethodPost, maps, object("a"), http.StatusCreated},
			{"server-side apply that creates", http.MethodPatch, maps + "/b?fieldManager=remit", object("b"), http.StatusCreated},
			{"server-side apply that changes", http.MethodPatch, maps + "/a?fieldManager=remit&force=true", object("a"), http.StatusOK},
			{"get", http.MethodGet, maps + "/a", "", http.StatusOK},
			{"list", http.MethodGet, maps, "", http.StatusOK},
			{"watch", http.MethodGet, maps + "?watch=true&timeoutSeconds=1", "", http.StatusOK},
			{"delete", http.MethodDelete, maps + "/a", "", http.StatusOK},
			// The verbs also apply to the subresources of a resource.
			{"create a token", http.MethodPost, token, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`, http.StatusCreated},
		} {
			require.Equal(w, row.code, send(row.method, row.path, row.body), row.what)
		}
		for _, row := range []struct {
			what, method, path, body string
			legacy                   int
		}{
			{"update", http.MethodPut, maps + "/b", object("b"), http.StatusOK},
			{"deletecollection", http.MethodDelete, maps, "", http.StatusOK},
			{"a path that is not a resource", http.MethodGet, "/metrics", "", http.StatusOK},
		} {
			want := http.StatusForbidden
			if how == ImpersonationLegacy {
				want = row.legacy
			}
			require.Equal(w, want, send(row.method, row.path, row.body), row.what)
		}
	})
}

// The API server caches permissions for constrained impersonation for ten seconds.
func TestReportsARevokedEnrollmentAfterARefusal(t *testing.T) {
	eachForm(t, func(w *extensionWorld, how Impersonation) {
		objs := w.enroll(how)
		c, err := w.clients.As(w.Context(), w.identity)
		require.NoError(w, err)
		require.NoError(w, w.admin.Delete(w.Context(), objs[1]))
		w.eventually(func(t *assert.CollectT) {
			_ = c.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "x"}, &corev1.ConfigMap{})
			_, err := w.clients.As(w.Context(), w.identity)
			require.Equal(t, AccountNotEnrolled, ReasonOf(err))
		})
	})
}

// recordedHeaders is a transport that records the headers of each request.
type recordedHeaders struct {
	seen []http.Header
	code int
}

func (r *recordedHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	r.seen = append(r.seen, req.Header)
	return &http.Response{StatusCode: r.code, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
}

func TestReplacesAllImpersonationHeaders(t *testing.T) {
	t.Parallel()
	identity, err := ExtensionIdentity("demo")
	require.NoError(t, err)
	wire := &recordedHeaders{code: http.StatusOK}
	i := &impersonator{identity: identity}
	i.usable.Store(true)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com", nil)
	require.NoError(t, err)
	req.Header = http.Header{
		"Accept": {"x"}, "Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters", "a"}, "Impersonate-Uid": {"1"},
		"Impersonate-Extra-Scopes": {"all"}, "impersonate-group": {"b"},
	}
	before := req.Header.Clone()
	resp, err := i.wrap(wire).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, before, req.Header, "the caller's request is not changed")
	require.Equal(t, []http.Header{{
		"Accept": {"x"}, "Impersonate-User": {"olm:clusterextension:demo"}, "Impersonate-Group": {"olm:clusterextensions"},
	}}, wire.seen)
	require.True(t, i.usable.Load())

	wire.code = http.StatusForbidden
	resp, err = i.wrap(wire).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.False(t, i.usable.Load(), "after a refusal, the enrollment is checked again")
}

// A wrapper of the base configuration cannot change the impersonated user, because it runs first.
func TestImpersonatesAfterAllOtherWrappers(t *testing.T) {
	w := newExtensionWorld(t)
	w.enroll(ImpersonationConstrained)
	base := rest.CopyConfig(w.base)
	base.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			req.Header.Set("Impersonate-Group", "system:masters")
			return next.RoundTrip(req)
		})
	})
	clients, err := NewClients(Options{Base: base, Scheme: clientgoscheme.Scheme, Mapper: mapper()})
	require.NoError(t, err)
	_, err = clients.As(t.Context(), w.identity)
	require.NoError(t, err)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestRefusesIdentitiesThatItMustNotImpersonate(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	clients, err := NewClients(Options{Base: config, Scheme: clientgoscheme.Scheme, Mapper: mapper()})
	require.NoError(t, err)
	for _, name := range invalidExtensions()[1:] {
		_, err = clients.As(t.Context(), Identity{Extension: name})
		require.ErrorContains(t, err, "is not a valid ClusterExtension name", name)
	}
	_, err = clients.As(t.Context(), Identity{Extension: "demo", Account: Account{Namespace: "ns", Name: "acct", UID: "1"}})
	require.ErrorContains(t, err, "an identity cannot be both ServiceAccount ns/acct and the user of ClusterExtension demo")
	for _, nothing := range []Identity{{}, {Account: Account{Namespace: "ns", Name: "acct"}}} {
		_, err = clients.As(t.Context(), nothing)
		require.ErrorContains(t, err, "the UID of the ServiceAccount is required")
	}
	require.Empty(t, known(clients))

	// The API server would ignore the first impersonation and use credentials that must not be used.
	config.Impersonate.UserName = "system:serviceaccount:remit:remit-extension"
	_, err = clients.As(t.Context(), Identity{Extension: "demo"})
	require.ErrorContains(t, err, "the controller identity must not be impersonated itself")
}

func TestSyntheticUsersShareAClientPerIdentity(t *testing.T) {
	w := newExtensionWorld(t)
	w.enroll(ImpersonationConstrained)
	first, err := w.clients.As(t.Context(), w.identity)
	require.NoError(t, err)
	second, err := w.clients.As(t.Context(), w.identity)
	require.NoError(t, err)
	require.Same(t, first, second)
	w.clients.sweep()
	require.Len(t, known(w.clients), 1)
	require.False(t, known(w.clients)[w.identity.Username()].isUnused(w.clients.options.Clock.Now().Add(keepSynthetic-time.Minute)))
	require.True(t, known(w.clients)[w.identity.Username()].isUnused(w.clients.options.Clock.Now().Add(keepSynthetic+time.Minute)))
	w.clients.ForgetIdentity(w.identity)
	require.Empty(t, known(w.clients))
}

func TestTheVersionSuggestsTheFormOfImpersonation(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]Impersonation{
		"v1.36.0":          ImpersonationConstrained,
		"v1.36.3+k3s1":     ImpersonationConstrained,
		"v1.37.0-alpha.1":  ImpersonationConstrained,
		"v2.0.0":           ImpersonationConstrained,
		"v1.35.9-gke.1000": ImpersonationLegacy,
		"v1.4.0":           ImpersonationLegacy,
		"":                 ImpersonationLegacy,
		"unknown":          ImpersonationLegacy,
	} {
		require.Equal(t, want, ImpersonationFor(version), version)
	}
}
