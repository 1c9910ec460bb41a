package pki

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

func TestAnAuthorityIsKeptAndVerifiesItsCertificates(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenAuthority(dir, "ca")
	require.NoError(t, err)
	again, err := OpenAuthority(dir, "ca")
	require.NoError(t, err)
	require.Equal(t, first.CertPEM(), again.CertPEM())

	certPEM, _, err := again.Issue(Subject{User: "u", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Names: []string{"localhost"}})
	require.NoError(t, err)
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(first.CertPEM()))
	for _, name := range []string{"localhost", "127.0.0.1"} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name})
		require.NoError(t, err, name)
	}
}

func TestATokenKubeconfigHasItsNamespaceAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, WriteTokenKubeconfig(file, Cluster{Server: "https://127.0.0.1:1"}, "/token", "ns"))
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, &clientcmd.ConfigOverrides{})
	namespace, _, err := config.Namespace()
	require.NoError(t, err)
	require.Equal(t, "ns", namespace)
	raw, err := config.RawConfig()
	require.NoError(t, err)
	require.Equal(t, "/token", raw.AuthInfos[contextName].TokenFile)
}

func TestAKeyIsGeneratedOnce(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenKey(dir, "sa")
	require.NoError(t, err)
	again, err := OpenKey(dir, "sa")
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.FileExists(t, first)
}
