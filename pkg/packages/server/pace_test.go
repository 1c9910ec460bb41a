package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/remit-olm/remit/pkg/catalog/web"
	"github.com/remit-olm/remit/pkg/lib/listen"
	"github.com/remit-olm/remit/pkg/packages"
)

// proxy sends the requests of many users on one HTTP/2 connection, like the kube-apiserver, but does not read ahead.
type proxy struct {
	*testServer
	client      *http.Client
	connections atomic.Int32
}

func (s *testServer) proxy() *proxy {
	p := &proxy{testServer: s}
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			p.connections.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{s.proxies.client("kube-apiserver")}},
		ForceAttemptHTTP2: true, DisableCompression: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}}
	s.Cleanup(p.client.CloseIdleConnections)
	return p
}

// get sends a request as a user, and returns the response, which the user has not read.
func (p *proxy) get(user, path string) *http.Response {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.Host+path, nil)
	require.NoError(p, err)
	r.Header.Set(testUser, user)
	got, err := p.client.Do(r)
	require.NoError(p, err)
	p.Cleanup(func() { _ = got.Body.Close() })
	return got
}

const listPath = "/apis/packages.operators.coreos.com/v1/namespaces/n/packagemanifests"

// chunks returns packages that fill chunks of lists.
func chunks(n int) []packages.Record {
	var records []packages.Record
	for i := range n * 4 {
		r := record("c", fmt.Sprint("p", i), "x")
		r.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription = strings.Repeat("x", maxPageBytes/4-8192)
		records = append(records, r)
	}
	return append(records, record("c", "small", "x"))
}

// A tenant has as many users as namespaces, and these do not read their responses.
func TestUsersWhoDoNotReadLoseTheirRoom(t *testing.T) {
	const stall = 3 * time.Second
	publish := func(context.Context, []byte) error { return nil }
	s := servingWith(t, &web.Certificates{Publish: publish}, listen.Pace{Stall: stall, Rate: defaultPace.Rate, Most: defaultPace.Most})
	s.put(global, "c", chunks(1)...)
	s.complete()
	p := s.proxy()
	hold := func(tenant string) (unread []*http.Response) {
		for n := range maxReading / maxReadingUser {
			got := p.get(fmt.Sprintf("system:serviceaccount:%s-%d:reader", tenant, n), listPath+"?limit=500")
			require.Equal(t, http.StatusOK, got.StatusCode)
			unread = append(unread, got)
		}
		return unread
	}
	unread := hold("a")
	for _, path := range []string{listPath + "/small", "/livez", "/readyz", "/apis/packages.operators.coreos.com/v1", "/openapi/v3"} {
		got := p.get("other", path)
		require.Equal(t, http.StatusOK, got.StatusCode, path)
		_, err := io.Copy(io.Discard, got.Body)
		require.NoError(t, err, path)
	}
	got := p.get("other", listPath+"?limit=500")
	require.Equal(t, http.StatusOK, got.StatusCode, "there is room again")
	_, err := io.Copy(io.Discard, got.Body)
	require.NoError(t, err)
	hold("b") // all have lost their room
	for _, one := range unread {
		_, err := io.Copy(io.Discard, one.Body)
		require.Error(t, err, "the user can tell that the response is incomplete")
	}
	require.EqualValues(t, 1, p.connections.Load(), "the connection continues")
}

// The context of a request can be done while the response still takes memory.
func TestAResponseTakesRoomUntilItIsWritten(t *testing.T) {
	r := newRoom()
	handler := withPace(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		ctx, cancel := context.WithCancel(q.Context())
		require.NoError(t, r.take(ctx, maxReadingUser))
		cancel()
		require.True(t, r.waits(t, "", maxReadingUser))
	}), defaultPace)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.Eventually(t, func() bool { return !r.waits(t, "", maxReadingUser) }, time.Minute, time.Millisecond)
}

// Refusals are not written at a pace.
func TestEveryResponseEnds(t *testing.T) {
	failed := make(chan error, 1)
	server := httptest.NewUnstartedServer(withAnswer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, strings.Repeat("x", 32<<20))
		failed <- err
	}), 500*time.Millisecond))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	if got, err := server.Client().Get(server.URL); err == nil { // on a busy machine, it ends before its first byte
		defer got.Body.Close()
	}
	select {
	case err := <-failed:
		require.Error(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the response does not end")
	}
}

// A client of HTTP/2 that reads nothing has 100 responses for each connection, which are written when their handlers have ended.
func TestASmallResponseThatIsNotReadEnds(t *testing.T) {
	t.Parallel() // it waits for defaultPace.Stall
	server := httptest.NewUnstartedServer(withAnswer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}), time.Hour))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	require.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for name, value := range map[string]string{":method": http.MethodGet, ":scheme": "https", ":authority": "x", ":path": "/"} {
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: name, Value: value}))
	}
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndStream: true, EndHeaders: true}))
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	for {
		frame, err := framer.ReadFrame()
		require.NoError(t, err, "the response does not end")
		if _, ok := frame.(*http2.RSTStreamFrame); ok {
			return
		}
	}
}

// The watch of the catalog program sends no events at all.
func TestAWatchWithoutEventsContinues(t *testing.T) {
	const timeout = 300 * time.Millisecond
	watching := withAnswer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(genericrequest.WithRequestInfo(r.Context(), &genericrequest.RequestInfo{Verb: "watch"}))
		withPace(withDelivery(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(3 * timeout)
			_, _ = io.WriteString(w, "x") // an error means that the watch has ended
		}), maxStall), defaultPace).ServeHTTP(w, r)
	}), timeout)
	for _, enabled := range []bool{false, true} {
		server := httptest.NewUnstartedServer(watching)
		server.EnableHTTP2 = enabled
		server.StartTLS()
		defer server.Close()
		got, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Equal(t, "x", string(text))
	}
}

// memoryLimit returns 60% of the memory that package-server can have.
func memoryLimit(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/packages/deployment.yaml")
	require.NoError(t, err)
	limit := regexp.MustCompile(`limits:\n\s+memory: (\d+)Gi\n`).FindSubmatch(text)
	require.NotNil(t, limit)
	n, err := strconv.ParseInt(string(limit[1]), 10, 64)
	require.NoError(t, err)
	return n << 30 * 6 / 10
}

// Everything that users can hold together, without reading anything, leaves room in the program's memory.
func TestResponsesThatAreNotReadFitIntoMemory(t *testing.T) {
	s := serving(t)
	s.put(global, "c", chunks(maxListBytes/maxPageBytes)...)
	half := record("c", "half", "x")
	half.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription = strings.Repeat("x", maxSmall-8192)
	s.put("n", "half", half)
	s.complete()
	before := memory()
	p := s.proxy()
	require.Equal(t, http.StatusOK, p.get("large", listPath).StatusCode)
	for n := range maxReading / maxReadingUser {
		require.Equal(t, http.StatusOK, p.get(fmt.Sprint("chunk", n), listPath+"?limit=500").StatusCode)
	}
	watchers := s.proxy()
	for n := range maxWatchBytes / maxPageBytes * 4 {
		require.Equal(t, http.StatusOK, watchers.get(fmt.Sprint("watch", n/8), listPath+"?watch=true").StatusCode)
	}
	for n, last := 0, http.StatusOK; last == http.StatusOK; n++ {
		last = watchers.get(fmt.Sprint("small", n), listPath+"/half").StatusCode
	}
	held := memory() - before
	t.Logf("%d MiB are held", held>>20)
	require.Less(t, held, memoryLimit(t)-(96+32+48+65)<<20, "beside the index and the program itself")
}
