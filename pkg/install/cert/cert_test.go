package cert_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/cert"
)

var (
	start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hosts = cert.Hosts("demo", "t1")
)

func issue(t *testing.T) cert.Pair {
	t.Helper()
	pair, err := cert.Policy{}.Issue(start, hosts)
	require.NoError(t, err)
	return pair
}

// serves returns an error if a caller that trusts the bundle does not accept the certificate for the host at the given
// time.
func serves(bundle, certificate []byte, host string, now time.Time) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	block, _ := pem.Decode(certificate)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now})
	return err
}

func TestNamesFollowTheContract(t *testing.T) {
	require.Equal(t, "demo-operator-service", cert.ServiceName("demo.operator"))
	require.Equal(t, "demo-operator-service-cert", cert.SecretName("demo.operator"))
	require.Equal(t, []string{"demo-service.t1", "demo-service.t1.svc", "demo-service.t1.svc.cluster.local"}, hosts)
	long := strings.Repeat("a", 60)
	require.Len(t, cert.ServiceName(long), 63)
	require.NotEqual(t, cert.ServiceName(long+"b"), cert.ServiceName(long+"c"))
}

func TestACallerThatTrustsTheCAAcceptsTheCertificate(t *testing.T) {
	pair := issue(t)
	for _, host := range hosts {
		require.NoError(t, serves(pair.CA, pair.Certificate, host, start))
		require.NoError(t, serves(pair.CA, pair.Certificate, host, start.Add(cert.DefaultLife)))
	}
	require.Error(t, serves(pair.CA, pair.Certificate, "other.t1.svc", start))
	require.Error(t, serves(pair.CA, pair.Certificate, hosts[0], start.Add(cert.DefaultLife+time.Second)))
	require.Error(t, serves(issue(t).CA, pair.Certificate, hosts[0], start))
	both, err := tls.X509KeyPair(pair.Certificate, pair.Key.PEM())
	require.NoError(t, err)
	require.IsType(t, &ecdsa.PrivateKey{}, both.PrivateKey)
}

func TestACASignsOnlyOneCertificate(t *testing.T) {
	pair := issue(t)
	block, _ := pem.Decode(pair.CA)
	ca, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.True(t, ca.IsCA)
	require.True(t, ca.MaxPathLenZero)
	require.Equal(t, x509.KeyUsageCertSign, ca.KeyUsage)
	require.True(t, strings.HasPrefix(ca.Subject.CommonName, "olm-selfsigned-"))
	for key, value := range (cert.Set{Current: pair}).Data() {
		if key != cert.KeyPrivate {
			require.NotContains(t, string(value), "PRIVATE", key)
		}
	}
}

func TestAPrivateKeyIsNeverPrinted(t *testing.T) {
	next := issue(t)
	set := cert.Set{Current: issue(t), Next: &next}
	decision := cert.Policy{}.Decide(cert.Observed{Now: start, Hosts: hosts, Data: set.Data(), Recorded: set.Hashes()})
	require.Equal(t, cert.Keep, decision.Action)
	secret := strings.Split(string(set.Current.Key.PEM()), "\n")[1]
	numbers := strings.Trim(fmt.Sprintf("%d", []byte(secret[:20])), "[]")
	for _, value := range []any{set, &set, decision, set.Current.Key, &set.Current.Key, fmt.Errorf("x: %v", set), map[string]any{"s": set}} {
		var shown []string
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shown = append(shown, fmt.Sprintf(verb, value))
		}
		if encoded, err := json.Marshal(value); err == nil {
			shown = append(shown, string(encoded))
		}
		if encoded, err := yaml.Marshal(value); err == nil {
			shown = append(shown, string(encoded))
		}
		for _, s := range shown {
			require.NotContains(t, s, secret)
			require.NotContains(t, s, numbers)
			require.NotContains(t, s, fmt.Sprintf("%x", secret[:20]))
		}
	}
	require.Empty(t, cert.PrivateKey{}.PEM())
}

func TestTheSecretHasTheKeysOfTheContract(t *testing.T) {
	pair := issue(t)
	data := cert.Set{Current: pair}.Data()
	require.Equal(t, map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key.PEM(), "olmCAKey": pair.CA}, data)
}

func TestHashIgnoresThePEMForm(t *testing.T) {
	ca := issue(t).CA
	require.Len(t, cert.Hash(ca), 64)
	require.Equal(t, cert.Hash(ca), cert.Hash(append([]byte("# a note\n"), ca...)))
	require.Empty(t, cert.Hash(append(ca, issue(t).CA...)))
	require.Empty(t, cert.Hash([]byte("no certificate")))
	require.Empty(t, cert.Hash(nil))
}
