package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	certutil "k8s.io/client-go/util/cert"

	"github.com/remit-olm/remit/pkg/packages/store"
)

// A tenant may have permission to update everything in a namespace, which includes the packagecatalogs in it.
func TestOnlyTheCatalogProgramSendsCatalogs(t *testing.T) {
	s := serving(t)
	s.put("a", "own", record("own", "etcd", "x"))
	tenant := http.Header{testUser: {"tenant"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the request of a writer would be answered much later
	defer cancel()
	for range maxForwardedUser {
		body, unfinished := io.Pipe() // a client that never ends its request
		context.AfterFunc(ctx, func() { _ = unfinished.Close() })
		got, err := s.request(ctx, http.MethodPut, "/apis/packages.operators.coreos.com/v1/namespaces/a/packagecatalogs/slow/content", body, tenant)
		require.NoError(t, err)
		defer got.Body.Close()
		require.Equal(t, http.StatusForbidden, got.StatusCode)
	}
	for path, method := range map[string]string{
		"/namespaces/a/packagecatalogs/all/complete": http.MethodPut, "/namespaces/a/packagecatalogs/own/content": http.MethodDelete,
	} {
		got := s.do(method, path, nil, tenant)
		require.NoError(t, got.Body.Close())
		require.Equal(t, http.StatusForbidden, got.StatusCode, path)
	}
	got := s.do(http.MethodGet, "/namespaces/a/packagecatalogs?watch=true", nil, tenant)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusForbidden, got.StatusCode, "watches of packagecatalogs have no limit")
	require.False(t, s.store.IsComplete())
	s.put("b", "other", record("other", "etcd", "x"))
	s.complete()
	got = s.do(http.MethodGet, "/namespaces/a/packagemanifests/etcd", nil, tenant)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusOK, got.StatusCode)
}

func TestLimitsTheTimeForReceivingACatalog(t *testing.T) {
	c := &catalogs{store.New(store.Options{Directory: t.TempDir(), GlobalNamespace: global}), time.Millisecond}
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended <- c.write(types.NamespacedName{Namespace: "a", Name: "own"}, w, r)
	}))
	defer server.Close()
	body, unfinished := io.Pipe()
	defer unfinished.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, body)
	require.NoError(t, err)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if got, err := http.DefaultClient.Do(r); err == nil {
			_ = got.Body.Close()
		}
	}()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "i/o timeout")
	case <-time.After(time.Minute):
		require.Fail(t, "the request is still being received")
	}
	require.NoError(t, unfinished.Close())
	<-sent
}

// authority issues client certificates.
type authority struct {
	*testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "proxies"}, key)
	require.NoError(t, err)
	return authority{t, certificate, key}
}

// delegate configures a server that knows the front proxies of the authority: those with the name of the kube-apiserver.
func (a authority) delegate(c *genericserver.Config) {
	a.Helper()
	roots, err := dynamiccertificates.NewStaticCAContent("proxies", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
	require.NoError(a, err)
	c.SecureServing.ClientCA = roots
	c.Authentication.RequestHeaderConfig = &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: roots, AllowedClientNames: headerrequest.StaticStringSlice{"kube-apiserver"},
		UsernameHeaders: headerrequest.StaticStringSlice{testUser}, UIDHeaders: headerrequest.StaticStringSlice{},
		GroupHeaders: headerrequest.StaticStringSlice{"X-Remote-Group"}, ExtraHeaderPrefixes: headerrequest.StaticStringSlice{},
	}
}

func (a authority) client(name string) tls.Certificate {
	a.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	require.NoError(a, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// connect opens a connection from an IP address, and returns the error of its first request.
func (s *testServer) connect(ip string, certificates ...tls.Certificate) error {
	s.Helper()
	raw, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(s.Context(), "tcp", strings.TrimPrefix(s.Host, "https://"))
	require.NoError(s, err)
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, Certificates: certificates, NextProtos: []string{"http/1.1"}})
	s.Cleanup(func() { _ = conn.Close() })
	require.NoError(s, conn.SetDeadline(time.Now().Add(time.Minute)))
	if _, err := io.WriteString(conn, "HEAD /livez HTTP/1.1\r\nHost: x\r\n"+testUser+": someone\r\n\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	require.NotErrorIs(s, err, os.ErrDeadlineExceeded)
	return err
}

func TestLimitsConnectionsExceptThoseOfTheAPIServer(t *testing.T) {
	s := serving(t)
	a := s.proxies
	for range 2 * maxPerClient {
		require.NoError(t, s.connect("127.0.0.2", a.client("kube-apiserver")))
	}
	for ip, certificates := range map[string][]tls.Certificate{
		"127.0.0.2": nil, "127.0.0.5": nil, "127.0.0.3": {a.client("another-proxy")}, "127.0.0.4": {newAuthority(t).client("kube-apiserver")},
	} {
		for range maxPerClient {
			require.NoError(t, s.connect(ip, certificates...))
		}
		require.Error(t, s.connect(ip, certificates...), ip)
	}
	require.NoError(t, s.connect("127.0.0.9", a.client("kube-apiserver")), "the port is full, but the API server is served")
}

// 1,400 clients that never finish their headers use little memory, and the kube-apiserver is served meanwhile.
func TestUnfinishedRequestsUseLittleMemory(t *testing.T) {
	s := serving(t)
	a := s.proxies
	require.NoError(t, s.connect("127.0.0.1", a.client("kube-apiserver")))
	header := "GET /livez HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20-100)
	before := memory()
	for n := range 1400 {
		raw, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+n/100), byte(1+n%100))}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Host, "https://"))
		require.NoError(t, err, fmt.Sprint(n))
		conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = io.WriteString(conn, header)
	}
	require.NoError(t, s.connect("127.0.0.1", a.client("kube-apiserver")))
	const server, clients = maxConnections * 4 * maxUnserved, 1400 * (64 << 10)
	require.Less(t, memory()-before, int64(server+clients))
}

// memory returns the bytes that the heap and the stacks of this process use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
