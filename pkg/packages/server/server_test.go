package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/catalog/web"
	"github.com/remit-olm/remit/pkg/lib/listen"
	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/pkg/packages/store"
)

const global = "remit-catalogs"

// testUser is the header with the name of the user who sends a request.
const testUser = "X-Remote-User"

// writer is the user that may send catalogs. Requests without testUser are those of the writer.
const writer = "system:serviceaccount:remit:remit-catalog"

// testServer is a Server that allows all requests; in a cluster, the kube-apiserver authorizes them.
// Clients connect as the kube-apiserver, which forwards all requests in a cluster.
type testServer struct {
	*testing.T
	proxies authority
	store   *store.Store
	*rest.Config
	client dynamic.NamespaceableResourceInterface
}

func serving(t *testing.T) *testServer {
	t.Helper()
	return servingWith(t, &web.Certificates{Publish: func(context.Context, []byte) error { return nil }}, defaultPace)
}

func servingWith(t *testing.T, issuing *web.Certificates, pace listen.Pace) *testServer {
	t.Helper()
	s := &testServer{T: t, proxies: newAuthority(t)}
	s.start(issuing, pace, func(c *genericserver.Config) error {
		c.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: cmp.Or(r.Header.Get(testUser), writer)}}, true, nil
		})
		c.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
		s.proxies.delegate(c)
		return nil
	})
	return s
}

// start starts a server that authenticates and authorizes requests as configured.
func (s *testServer) start(issuing *web.Certificates, pace listen.Pace, delegate func(*genericserver.Config) error) {
	t := s.T
	t.Helper()
	certificate := &Certificate{}
	issuing.Hosts, issuing.Use = []string{"localhost"}, certificate.Set
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = issuing.Start(ctx) }()
	<-certificate.Issued()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.store = store.New(store.Options{Directory: t.TempDir(), GlobalNamespace: global})
	api, err := New(Options{Listener: listener, Certificate: certificate, Store: s.store, Writer: writer, pace: pace, Delegate: delegate})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- api.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	proxy := s.proxies.client("kube-apiserver")
	key, err := x509.MarshalECPrivateKey(s.proxies.key)
	require.NoError(t, err)
	s.Config = &rest.Config{Host: "https://" + listener.Addr().String(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true, CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate[0]}),
		KeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}}
	s.Wrap(func(next http.RoundTripper) http.RoundTripper { return asWriter{next} })
	all, err := dynamic.NewForConfig(s.Config)
	require.NoError(t, err)
	s.client = all.Resource(packagesv1.GroupVersion.WithResource(packagesv1.ResourcePackageManifests))
}

// asWriter adds the name of the writer to requests without a user.
type asWriter struct{ http.RoundTripper }

func (a asWriter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get(testUser) == "" {
		r = r.Clone(r.Context())
		r.Header.Set(testUser, writer)
	}
	return a.RoundTripper.RoundTrip(r)
}

// put sends a catalog over HTTP, as the catalog program does.
func (s *testServer) put(namespace, name string, records ...packages.Record) {
	s.Helper()
	var body bytes.Buffer
	e, err := packages.NewEncoder(&body, packages.Header{Digest: "d", Source: packages.Source{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Created: metav1.Now(), DisplayName: "The " + name,
	}})
	require.NoError(s, err)
	for _, r := range records {
		require.NoError(s, e.Encode(r))
	}
	require.NoError(s, e.Close())
	require.Equal(s, http.StatusNoContent, s.send(http.MethodPut, fmt.Sprintf("/namespaces/%s/packagecatalogs/%s/content", namespace, name), &body))
}

func (s *testServer) complete() {
	s.Helper()
	require.Equal(s, http.StatusNoContent, s.send(http.MethodPut, "/namespaces/remit/packagecatalogs/all/complete", nil))
}

func (s *testServer) send(method, path string, body io.Reader) int {
	s.Helper()
	got := s.do(method, path, body, nil)
	defer got.Body.Close()
	return got.StatusCode
}

func (s *testServer) do(method, path string, body io.Reader, header http.Header) *http.Response {
	s.Helper()
	got, err := s.request(s.Context(), method, "/apis/packages.operators.coreos.com/v1"+path, body, header)
	require.NoError(s, err)
	return got
}

// request sends a request on its own connection.
func (s *testServer) request(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.Host+path, body)
	if err != nil {
		return nil, err
	}
	if header != nil {
		r.Header = header
	}
	proxy := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{s.proxies.client("kube-apiserver")}}
	client := &http.Client{Transport: asWriter{&http.Transport{TLSClientConfig: proxy, DisableKeepAlives: true}}}
	return client.Do(r)
}

// record is a package with one channel.
func record(catalog, name, description string, icons ...packagesv1.Icon) packages.Record {
	r := packages.Record{Icons: icons}
	r.Manifest.Name = name
	r.Manifest.Labels = map[string]string{"catalog": catalog, "team": description}
	r.Manifest.Status = packagesv1.PackageManifestStatus{
		CatalogSource: catalog, CatalogSourceDisplayName: "The " + catalog, PackageName: name, DefaultChannel: "stable",
		Channels: []packagesv1.PackageChannel{{Name: "stable", CurrentCSV: name + ".v1", CurrentCSVDesc: packagesv1.CSVDescription{LongDescription: description}}},
	}
	if len(icons) > 0 {
		r.Uses = map[string]int{"stable": 0}
	}
	return r
}

// listed returns the namespaces, names and catalogs of a list.
func (s *testServer) listed(namespace string, o metav1.ListOptions) []string {
	s.Helper()
	list, err := s.client.Namespace(namespace).List(s.Context(), o)
	require.NoError(s, err)
	out := []string{}
	for _, item := range list.Items {
		out = append(out, item.GetNamespace()+"/"+item.GetName()+"@"+item.GetLabels()["catalog"])
		text, err := item.MarshalJSON()
		require.NoError(s, err)
		require.NotContains(s, string(text), "base64data", "lists have no icons")
	}
	return out
}

func TestServesThePackagesOfANamespaceAndTheGlobalOnes(t *testing.T) {
	s := serving(t)
	_, err := s.client.Namespace("a").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsServiceUnavailable(err), "an empty list would be wrong: %v", err)
	png := packagesv1.Icon{Base64Data: base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nx")), Mediatype: "image/png"}
	s.put(global, "community", record("community", "etcd", "x", png), record("community", "zoo", "x"))
	s.put("a", "own", record("own", "etcd", "y"))
	s.put("b", "foreign", record("foreign", "secret", "z"))
	s.complete()

	require.Equal(t, []string{"a/etcd@own", "a/etcd@community", "a/zoo@community"}, s.listed("a", metav1.ListOptions{}))
	require.Equal(t, []string{"b/etcd@community", "b/secret@foreign", "b/zoo@community"}, s.listed("b", metav1.ListOptions{}))
	require.Equal(t, []string{"a/etcd@own", "b/secret@foreign", global + "/etcd@community", global + "/zoo@community"}, s.listed("", metav1.ListOptions{}))
	require.Equal(t, []string{"a/etcd@own"}, s.listed("a", metav1.ListOptions{LabelSelector: "catalog=own"}))
	require.Equal(t, []string{"a/zoo@community"}, s.listed("a", metav1.ListOptions{FieldSelector: "metadata.name=zoo"}))
	require.Equal(t, []string{"b/secret@foreign"}, s.listed("", metav1.ListOptions{FieldSelector: "metadata.namespace=b"}))
	_, err = s.client.List(t.Context(), metav1.ListOptions{FieldSelector: "status.packageName=zoo"})
	require.True(t, apierrors.IsBadRequest(err), "%v", err)

	// Each requirement is compared with each package.
	for n, isAccepted := range map[int]bool{maxSelected: true, maxSelected + 1: false} {
		missing := strings.Repeat("!x,", n-1) + "!x"
		distinct := make([]string, n-1)
		for i := range distinct {
			distinct[i] = fmt.Sprint("v", i)
		}
		for _, o := range []metav1.ListOptions{{LabelSelector: missing}, {LabelSelector: "catalog notin (" + strings.Join(distinct, ",") + ")"}, {FieldSelector: strings.Repeat("metadata.name!=x,", n-1) + "metadata.name!=x"}} {
			_, err = s.client.Namespace("a").List(t.Context(), o)
			require.Equal(t, isAccepted, err == nil, "%d: %v", n, err)
			watching, err := s.client.Namespace("a").Watch(t.Context(), o)
			require.Equal(t, isAccepted, err == nil, "%d: %v", n, err)
			if err == nil {
				watching.Stop()
			} else {
				require.True(t, apierrors.IsBadRequest(err), "%v", err)
			}
		}
	}

	got, err := s.client.Namespace("b").Get(t.Context(), "etcd", metav1.GetOptions{})
	require.NoError(t, err)
	text, err := got.MarshalJSON()
	require.NoError(t, err)
	require.NotContains(t, string(text), "base64data", "as in OLM, only the subresource has icons")
	_, err = s.client.Namespace("a").Get(t.Context(), "secret", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	got, err = s.client.Namespace("a").Get(t.Context(), "etcd", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "own", got.GetLabels()["catalog"], "the catalog that resolution prefers")

	require.Equal(t, http.StatusNoContent, s.send(http.MethodDelete, "/namespaces/a/packagecatalogs/own/content", nil))
	require.Equal(t, []string{"a/etcd@community", "a/zoo@community"}, s.listed("a", metav1.ListOptions{}))
}

func TestListsInChunks(t *testing.T) {
	s := serving(t)
	var want []string
	for c := range 3 {
		name := fmt.Sprint("c", c)
		s.put(global, name, record(name, "a", "x"), record(name, "b", "x"), record(name, "c", "x"))
	}
	s.complete()
	want = s.listed("n", metav1.ListOptions{})
	require.Len(t, want, 9)
	var got []string
	for o := (metav1.ListOptions{Limit: 2}); ; {
		list, err := s.client.Namespace("n").List(t.Context(), o)
		require.NoError(t, err)
		for _, item := range list.Items {
			got = append(got, item.GetNamespace()+"/"+item.GetName()+"@"+item.GetLabels()["catalog"])
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			break
		}
		require.EqualValues(t, 9-len(got), *list.GetRemainingItemCount())
	}
	require.Equal(t, want, got)

	list, err := s.client.Namespace("n").List(t.Context(), metav1.ListOptions{Limit: 2})
	require.NoError(t, err)
	s.put(global, "c0", record("c0", "a", "changed"))
	_, err = s.client.Namespace("n").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: list.GetContinue()})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	_, err = s.client.Namespace("n").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: "?"})
	require.True(t, apierrors.IsBadRequest(err), "%v", err)
}

// A large list must be requested in chunks, and a chunk of large packages contains fewer items than the
// requested limit.
func TestLimitsTheSizeOfAList(t *testing.T) {
	s := serving(t)
	var records []packages.Record
	for n := range 49 {
		records = append(records, record("c", fmt.Sprint("p", n), strings.Repeat("x", 2<<20)))
	}
	s.put(global, "c", records...)
	s.complete()
	_, err := s.client.Namespace("n").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsRequestEntityTooLargeError(err), "%v", err)
	list, err := s.client.Namespace("n").List(t.Context(), metav1.ListOptions{Limit: 500})
	require.NoError(t, err)
	require.Less(t, len(list.Items), 10)
	require.NotEmpty(t, list.GetContinue())
}

// seen collects the events of a watch.
func seen(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var out []string
	for range n {
		select {
		case e, ok := <-w.ResultChan():
			require.True(t, ok, "the watch has ended after %q", out)
			if u, ok := e.Object.(*unstructured.Unstructured); ok {
				out = append(out, fmt.Sprint(e.Type, " ", u.GetName(), "@", u.GetLabels()["catalog"], u.GetAnnotations()[metav1.InitialEventsAnnotationKey]))
			}
		case <-time.After(time.Minute):
			require.Fail(t, "no event", "after %q", out)
		}
	}
	return out
}

func TestReportsChanges(t *testing.T) {
	s := serving(t)
	s.put(global, "c", record("c", "a", "x"), record("c", "b", "x"))
	s.put("other", "d", record("d", "e", "x"))
	s.complete()
	list, err := s.client.Namespace("n").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	yes := true
	listing, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	require.NoError(t, err)
	require.Equal(t, []string{"ADDED a@c", "ADDED b@c", "BOOKMARK @true"}, seen(t, listing, 3))
	selected, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), LabelSelector: "team=y"})
	require.NoError(t, err)
	all, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)

	s.put(global, "c", record("c", "a", "x"), record("c", "b", "y"), record("c", "n", "x")) // a is unchanged
	for _, w := range []watch.Interface{listing, all} {                                     // before the next change, which a watch may combine with this one
		require.ElementsMatch(t, []string{"MODIFIED b@c", "ADDED n@c"}, seen(t, w, 2))
	}
	require.Equal(t, "ADDED b@c", seen(t, selected, 1)[0])
	s.put("other", "d", record("d", "e", "y"))
	s.put("n", "own", record("own", "b", "z"))
	s.put(global, "c", record("c", "b", "x"))

	// The watch adds the package of the same name that another catalog still contains.
	s.put("n", "own")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got := seen(t, all, 1)
		assert.Equal(c, []string{"DELETED b@own"}, got)
	}, time.Minute, time.Millisecond)
	require.Equal(t, []string{"ADDED b@c"}, seen(t, all, 1))

	late, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "5"})
	if err == nil {
		e := <-late.ResultChan()
		err = apierrors.FromObject(e.Object)
	}
	require.True(t, apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "%v", err)
}

func TestLimitsTheWatchesOfAUser(t *testing.T) {
	s := serving(t)
	s.complete()
	var all []watch.Interface
	for range maxWatchesUser {
		w, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		all = append(all, w)
	}
	refused := s.do(http.MethodGet, "/namespaces/n/packagemanifests?watch=true", nil, nil) // s.client would retry the refused request for a long time
	require.NoError(t, refused.Body.Close())
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	all[0].Stop()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := s.client.Namespace("n").Watch(t.Context(), metav1.ListOptions{})
		assert.NoError(c, err)
	}, time.Minute, 10*time.Millisecond)
}

func TestAPartialCatalogChangesNothing(t *testing.T) {
	s := serving(t)
	s.put(global, "c", record("c", "a", "x"))
	s.complete()
	for _, body := range []io.Reader{
		strings.NewReader("{"),
		strings.NewReader(`{"source":{"namespace":"remit-catalogs","name":"c","created":null},"digest":"e"}` + "\n"),
		strings.NewReader(`{"source":{"namespace":"remit-catalogs","name":"other","created":null},"digest":"e"}` + "\n" + `{"packages":0}` + "\n"),
		io.MultiReader(strings.NewReader(`{"source":{"namespace":"remit-catalogs","name":"c","created":null},"digest":"e"}`+"\n"), failing{}),
	} {
		func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.Host+"/apis/packages.operators.coreos.com/v1/namespaces/"+global+"/packagecatalogs/c/content", body)
			require.NoError(t, err)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
			got, err := client.Do(r)
			if err == nil {
				require.NoError(t, got.Body.Close())
				require.Equal(t, http.StatusBadRequest, got.StatusCode)
			}
		}()
	}
	require.Equal(t, []string{"n/a@c"}, s.listed("n", metav1.ListOptions{}))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the connection was lost") }

// The subresource packagemanifests/icon serves the icon of a package.
func TestServesIcons(t *testing.T) {
	s := serving(t)
	const script = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	icon := func(data, kind string) packagesv1.Icon {
		return packagesv1.Icon{Base64Data: base64.StdEncoding.EncodeToString([]byte(data)), Mediatype: kind}
	}
	s.put(global, "c", record("c", "none", "x"), record("c", "svg", "x", icon(script, "image/svg+xml")), record("c", "html", "x", icon("<html>", "text/html")),
		record("c", "lie", "x", icon("<html><script>", "image/png")), record("c", "gif", "x", icon("GIF89a...", "IMAGE/GIF")), record("c", "broken", "x", packagesv1.Icon{Base64Data: "?", Mediatype: "image/png"}))
	s.complete()
	for name, want := range map[string]struct{ kind, body string }{
		"none": {"image/svg+xml", defaultIcon}, "svg": {"image/svg+xml", script}, "html": {"image/svg+xml", defaultIcon},
		"lie": {"image/svg+xml", defaultIcon}, "gif": {"image/gif", "GIF89a..."}, "broken": {"image/svg+xml", defaultIcon},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/namespaces/n/packagemanifests/" + name + "/icon"
			got := s.do(http.MethodGet, path, nil, nil)
			defer got.Body.Close()
			body, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, got.StatusCode, string(body))
			require.Equal(t, want.body, string(body))
			require.Equal(t, want.kind, got.Header.Get("Content-Type"))
			require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
			require.Equal(t, "default-src 'none'; style-src 'unsafe-inline'; sandbox", got.Header.Get("Content-Security-Policy"))
			again := s.do(http.MethodGet, path, nil, http.Header{"If-None-Match": {`"other", ` + got.Header.Get("ETag")}})
			defer again.Body.Close()
			require.Equal(t, http.StatusNotModified, again.StatusCode)
		})
	}
	require.Equal(t, http.StatusNotFound, s.send(http.MethodGet, "/namespaces/n/packagemanifests/missing/icon", nil))
	require.Equal(t, http.StatusMethodNotAllowed, s.send(http.MethodPost, "/namespaces/n/packagemanifests/svg/icon", nil))
}

func TestDescribesItsAPI(t *testing.T) {
	s := serving(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	got, err := client.Get(s.Host + "/openapi/v3/apis/packages.operators.coreos.com/v1")
	require.NoError(t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	for _, field := range []string{`"currentCSVDesc"`, `"nativeApis"`, `"defaultChannel"`, `"kind":"PackageManifest"`} {
		require.Contains(t, string(body), field)
	}
}
