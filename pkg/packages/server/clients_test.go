package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/remit-olm/remit/pkg/catalog/web"
)

// kube answers the requests of delegated authentication and authorization. Every token belongs to the user slow, and a
// SubjectAccessReview for a user whose name contains "slow" is not answered.
type kube struct {
	*testing.T
	proxies authority
	ended   <-chan struct{}

	mu sync.Mutex
	// reviews counts the SubjectAccessReviews by user. now counts those that are not answered yet, by userKey; most was the highest.
	reviews, now map[string]int
	most         int
}

// servingDelegated starts a server with the delegated authentication and authorization that it has in a cluster.
func servingDelegated(t *testing.T) (*testServer, *kube) {
	t.Helper()
	s := &testServer{T: t, proxies: newAuthority(t)}
	k := &kube{T: t, proxies: s.proxies, ended: t.Context().Done(), reviews: map[string]int{}, now: map[string]int{}}
	api := httptest.NewServer(k)
	t.Cleanup(api.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: api.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	s.start(&web.Certificates{Publish: func(context.Context, []byte) error { return nil }}, defaultPace, Delegation(path, nil))
	require.Eventually(t, func() bool { // the server reads the CAs in the background
		code, err := s.status(t.Context(), "127.0.0.1", "/apis", http.Header{testUser: {"early"}}, s.proxies.client("kube-apiserver"))
		return err == nil && code == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	return s, k
}

// ServeHTTP implements http.Handler.
func (k *kube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	obj, _, _ := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	switch review := obj.(type) {
	case *authenticationv1.TokenReview:
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "slow"}}
		k.answer(w, review)
	case *authorizationv1.SubjectAccessReview:
		k.review(review.Spec.User, 1)
		defer k.review(review.Spec.User, -1)
		if strings.Contains(review.Spec.User, "slow") {
			k.wait(r)
			return
		}
		review.Status.Allowed = true
		k.answer(w, review)
	default:
		k.configuration(w, r)
	}
}

// configuration answers requests for the ConfigMap with the CAs of the front proxies.
func (k *kube) configuration(w http.ResponseWriter, r *http.Request) {
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.proxies.certificate.Raw}))
	another := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: newAuthority(k.T).certificate.Raw}))
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication", ResourceVersion: "1"}
	one := corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{
		"client-ca-file": another, "requestheader-client-ca-file": ca,
		"requestheader-allowed-names": `["kube-apiserver"]`, "requestheader-username-headers": `["X-Remote-User"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}}
	one.APIVersion, one.Kind = "v1", "ConfigMap"
	switch {
	case r.URL.Query().Get("watch") != "":
		last := one.DeepCopy()
		last.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		k.answer(w, &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: &one}})
		k.answer(w, &metav1.WatchEvent{Type: "BOOKMARK", Object: runtime.RawExtension{Object: last}})
		_ = http.NewResponseController(w).Flush()
		k.wait(r)
	case strings.HasSuffix(r.URL.Path, "/configmaps"):
		list := corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{one}}
		list.APIVersion, list.Kind = "v1", "ConfigMapList"
		k.answer(w, &list)
	default:
		k.answer(w, &one)
	}
}

// wait waits until the client or the test has ended.
func (k *kube) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-k.ended:
	}
}

func (*kube) answer(w http.ResponseWriter, obj any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj) // an error means that the client has ended
}

func (k *kube) review(name string, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reviews[name] += max(n, 0)
	k.now[userKey(name)] += n
	k.most = max(k.most, k.now[userKey(name)])
}

// reviewed returns the number of SubjectAccessReviews for a user so far.
func (k *kube) reviewed(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reviews[name]
}

// flood sends many requests, whose responses may never come.
type flood struct {
	*testServer
	ctx     context.Context //nolint:containedctx // ends the requests when the test ends
	pending sync.WaitGroup

	mu    sync.Mutex
	codes map[int]int
}

func (s *testServer) flood() *flood {
	ctx, cancel := context.WithCancel(s.Context())
	f := &flood{testServer: s, ctx: ctx, codes: map[int]int{}}
	s.Cleanup(func() {
		cancel()
		f.pending.Wait()
	})
	return f
}

// from sends a request from an IP address, with client certificates if any, and counts the code of the response.
func (f *flood) from(ip, path string, header http.Header, certificates ...tls.Certificate) {
	f.pending.Go(func() {
		for f.ctx.Err() == nil { // the server refuses connections if it has too many that it does not know yet
			if code, err := f.status(f.ctx, ip, path, header.Clone(), certificates...); err == nil {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.codes[code]++
				return
			}
		}
	})
}

// count returns how many responses had a code.
func (f *flood) count(code int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.codes[code]
}

// status sends a GET request from an IP address, and returns the code of the response. A refusal must have a body.
func (s *testServer) status(ctx context.Context, ip, path string, header http.Header, certificates ...tls.Certificate) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Host+path, nil)
	if err != nil {
		return 0, err
	}
	if header != nil {
		r.Header = header
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}, DisableKeepAlives: true,
	}}
	got, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	if got.StatusCode == http.StatusTooManyRequests {
		var status metav1.Status
		if err := json.NewDecoder(got.Body).Decode(&status); err != nil || got.Header.Get("Retry-After") == "" || status.Reason != metav1.StatusReasonTooManyRequests {
			return 0, fmt.Errorf("incomplete refusal: %+v: %w", status, err)
		}
	}
	return got.StatusCode, nil
}

// requireServed requires that the kubelet, the kube-apiserver, a user and the catalog program are served, although others have
// taken everything that they can.
func (s *testServer) requireServed() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		for _, ip := range []string{"127.0.0.1", "127.0.1.1"} { // in some networks, Pods have the address of their node
			code, err := s.status(ctx, ip, path, nil)
			require.NoError(s, err, path)
			require.Equal(s, http.StatusOK, code, path)
		}
	}
	proxy := s.proxies.client("kube-apiserver")
	for path, header := range map[string]http.Header{
		listPath + "?limit=500":                  {testUser: {"someone"}},
		"/apis/packages.operators.coreos.com/v1": {testUser: {"system:kube-aggregator"}, "X-Remote-Group": {"system:masters"}},
	} {
		code, err := s.status(ctx, "127.0.0.1", path, header, proxy)
		require.NoError(s, err, path)
		require.Equal(s, http.StatusOK, code, path)
	}
	s.put("n", "own", record("own", "etcd", "x"))
}

// client returns the address of one of 200 Pods.
func client(n int) string { return fmt.Sprintf("127.0.1.%d", 1+n%200) }

// Without limits, 100 requests that wait for their SubjectAccessReview stop the server: everything else is refused, including the
// probes of the kubelet, which restarts it.
func TestRequestsFromPodsLeaveTheServerAvailable(t *testing.T) {
	s, k := servingDelegated(t)
	s.put(global, "c", record("c", "p", "x"))
	s.complete()
	f := s.flood()
	for n := range 100 {
		f.from(client(n), fmt.Sprintf("%s?labelSelector=x%d", listPath, n), nil)
	}
	answered := func() bool { return f.count(http.StatusUnauthorized)+f.count(http.StatusTooManyRequests) == 100 }
	require.Eventually(t, answered, time.Minute, time.Millisecond)
	require.Positive(t, f.count(http.StatusUnauthorized))
	require.Zero(t, k.reviewed("system:anonymous"))

	t.Log("nobody but the kube-apiserver chooses a user")
	header := func() http.Header {
		return http.Header{"Authorization": {"Bearer token"}, testUser: {writer}, "X-Remote-Group": {"system:masters"}}
	}
	refused := f.count(http.StatusTooManyRequests)
	for n := range 60 { // one Pod, whose certificate is not that of a front proxy
		f.from("127.0.1.1", fmt.Sprintf("%s/p%d?watch=true", listPath, n), header(), s.proxies.client("another-proxy"))
	}
	require.Eventually(t, func() bool { return f.count(http.StatusTooManyRequests)-refused >= 60-maxDirectClient }, time.Minute, time.Millisecond)
	for n := range 150 {
		f.from(client(n), fmt.Sprintf("%s?watch=true&labelSelector=x%d", listPath, n), header())
	}
	require.Eventually(t, func() bool { return f.count(http.StatusTooManyRequests)-refused >= 210-maxDirect }, time.Minute, time.Millisecond)
	s.requireServed()
	require.Positive(t, k.reviewed("slow"))
	require.LessOrEqual(t, k.most, maxReviews)
}

// A user whom the kube-apiserver has authorized can send any number of requests as well.
func TestRequestsOfUsersLeaveTheServerAvailable(t *testing.T) {
	s, k := servingDelegated(t)
	s.put(global, "c", record("c", "p", "x"))
	s.complete()
	f := s.flood()
	proxy := s.proxies.client("kube-apiserver")
	for n := range 100 { // a tenant has any number of ServiceAccounts
		f.from("127.0.0.1", fmt.Sprintf("%s/p%d", listPath, n), http.Header{testUser: {fmt.Sprintf("system:serviceaccount:slow:account%d", n)}}, proxy)
	}
	require.Eventually(t, func() bool { return f.count(http.StatusTooManyRequests) >= 100-maxForwardedUser }, time.Minute, time.Millisecond)
	s.requireServed()
	require.LessOrEqual(t, k.most, maxReviews)

	t.Log("many users together can take all that users can, but neither the kube-apiserver nor the catalog program")
	for n := range 2 * maxForwarded {
		f.from("127.0.0.1", listPath, http.Header{testUser: {fmt.Sprint("slow", n)}}, proxy)
	}
	require.Eventually(t, func() bool { return f.count(http.StatusTooManyRequests) >= 100+maxForwarded }, time.Minute, time.Millisecond)
	code, err := s.status(t.Context(), "127.0.0.1", listPath, http.Header{testUser: {"someone"}}, proxy)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, code)
	code, err = s.status(t.Context(), "127.0.0.1", listPath, http.Header{testUser: {"system:kube-aggregator"}, "X-Remote-Group": {"system:masters"}}, proxy)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	s.put("n", "own", record("own", "etcd", "y"))
}

func TestWatchesDoNotCountAsRequests(t *testing.T) {
	s, k := servingDelegated(t)
	s.put(global, "c", record("c", "p", "x"))
	s.complete()
	p := s.proxy()
	for n := range maxWatchesUser {
		require.Equal(t, http.StatusOK, p.get("someone", fmt.Sprintf("%s?watch=true&labelSelector=x%d", listPath, n)).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, p.get("someone", listPath+"?watch=true").StatusCode)
	require.Equal(t, http.StatusOK, p.get("someone", listPath+"?limit=1").StatusCode)
	require.Equal(t, 2, k.reviewed("someone"), "the reviews of watches that differ in their selectors are the same")
}

func TestAClientTakesAQuarterOfWhatOthersLeave(t *testing.T) {
	q := newQuota(maxForwarded, maxForwardedUser)
	var leaves []func()
	enter := func(name string) bool {
		leave, ok := q.enter(name)
		if ok {
			leaves = append(leaves, leave)
		}
		return ok
	}
	for range maxForwardedUser {
		require.True(t, enter("user0"))
	}
	require.False(t, enter("user0"), "the limit for one user")
	for n := range 4 {
		for range maxForwarded {
			_ = enter(fmt.Sprint("more", n))
		}
	}
	require.True(t, enter("other"), "five users cannot have all")
	for n := range maxForwarded {
		_ = enter(fmt.Sprint("one", n))
	}
	require.False(t, enter("another"), "the limit for all users")
	for _, leave := range leaves {
		leave()
	}
	require.Zero(t, q.all)
	require.Empty(t, q.of)
	require.True(t, enter("user0"))
}
