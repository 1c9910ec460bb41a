package cert_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/install/cert"
)

// upToDate returns a set and the state that is observed while no action is due.
func upToDate(t *testing.T) (cert.Set, cert.Observed) {
	t.Helper()
	set := cert.Set{Current: issue(t)}
	return set, cert.Observed{
		Now: start.Add(time.Hour), Hosts: hosts, Data: set.Data(), Recorded: set.Hashes(), Bundles: [][]byte{set.Trust()}, Running: true,
	}
}

func TestDecide(t *testing.T) {
	foreign := foreignPair(t)
	for _, tc := range []struct {
		name   string
		given  func(o *cert.Observed)
		action cert.Action
		reason cert.Reason
	}{
		{"valid", func(*cert.Observed) {}, cert.Keep, ""},
		{"no Secret", func(o *cert.Observed) { o.Data = nil }, cert.Replace, cert.Missing},
		{"an empty Secret", func(o *cert.Observed) { o.Data = map[string][]byte{} }, cert.Replace, cert.Tampered},
		{"no key", func(o *cert.Observed) { delete(o.Data, cert.KeyPrivate) }, cert.Replace, cert.Tampered},
		{"no authority", func(o *cert.Observed) { delete(o.Data, cert.KeyCA) }, cert.Replace, cert.Tampered},
		{"another key", func(o *cert.Observed) { o.Data[cert.KeyPrivate] = issue(t).Key.PEM() }, cert.Replace, cert.Tampered},
		{"another certificate", func(o *cert.Observed) { o.Data[cert.KeyCertificate] = issue(t).Certificate }, cert.Replace, cert.Tampered},
		{"another pair under the same CA", func(o *cert.Observed) {
			pair := issue(t)
			o.Data[cert.KeyCertificate], o.Data[cert.KeyPrivate] = pair.Certificate, pair.Key.PEM()
		}, cert.Replace, cert.Tampered},
		{"garbage", func(o *cert.Observed) { o.Data[cert.KeyCertificate] = []byte("garbage") }, cert.Replace, cert.Tampered},
		{"two authorities", func(o *cert.Observed) { o.Data[cert.KeyCA] = append(issue(t).CA, o.Data[cert.KeyCA]...) }, cert.Replace, cert.Tampered},
		{"a megabyte", func(o *cert.Observed) { o.Data[cert.KeyCertificate] = make([]byte, 1<<20) }, cert.Replace, cert.Tampered},
		{"a consistent pair from another issuer", func(o *cert.Observed) { o.Data = cert.Set{Current: foreign}.Data() }, cert.Replace, cert.NotIssuedHere},
		{"a consistent pair that looks like Remit's", func(o *cert.Observed) { o.Data = cert.Set{Current: issue(t)}.Data() }, cert.Replace, cert.CAChanged},
		{"nothing recorded", func(o *cert.Observed) { o.Recorded = nil }, cert.Replace, cert.CAChanged},
		{"an empty record", func(o *cert.Observed) { o.Recorded = []string{""} }, cert.Replace, cert.CAChanged},
		{"other hosts", func(o *cert.Observed) { o.Hosts = cert.Hosts("demo", "t2") }, cert.Replace, cert.HostNames},
		{"an additional host", func(o *cert.Observed) { o.Hosts = append(cert.Hosts("demo", "t1"), "x") }, cert.Replace, cert.HostNames},
		{"not valid yet", func(o *cert.Observed) { o.Now = start.Add(-2 * time.Hour) }, cert.Replace, cert.Expired},
		{"at expiry", func(o *cert.Observed) { o.Now = start.Add(cert.DefaultLife) }, cert.Replace, cert.Expired},
		{"just before two thirds of the lifetime", func(o *cert.Observed) { o.Now = start.Add(cert.DefaultLife/3*2 - time.Second) }, cert.Keep, ""},
		{"at two thirds of the lifetime", func(o *cert.Observed) { o.Now = start.Add(cert.DefaultLife / 3 * 2) }, cert.Stage, cert.NearExpiry},
		{"no callers", func(o *cert.Observed) { o.Bundles = nil }, cert.Keep, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, o := upToDate(t)
			tc.given(&o)
			d := cert.Policy{}.Decide(o)
			require.Equal(t, tc.action, d.Action)
			require.Equal(t, tc.reason, d.Reason)
			again := cert.Policy{}.Decide(o)
			require.Equal(t, d.Message, again.Message, "deterministic")
			require.Equal(t, d.Set.Data(), again.Set.Data(), "deterministic")
			if tc.action == cert.Replace {
				require.NotEmpty(t, d.Message)
				require.True(t, d.Set.IsZero())
			}
		})
	}
}

// foreignPair returns a consistent pair with a CA that Remit did not issue.
func foreignPair(t *testing.T) cert.Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"Remit"}, CommonName: "evil"}, DNSNames: hosts,
		NotBefore: start, NotAfter: start.Add(cert.DefaultLife), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert.Pair{CA: certificate, Certificate: certificate, Key: issue(t).Key}
}

func TestDecideReportsWhenToDecideAgain(t *testing.T) {
	_, o := upToDate(t)
	d := cert.Policy{}.Decide(o)
	require.Equal(t, start.Add(cert.DefaultLife), d.Expires)
	require.Equal(t, start.Add(cert.DefaultLife/3*2), d.RotateAt)
	require.Equal(t, d.RotateAt.Sub(o.Now), d.After)
}

func TestARotationTakesItsStepsInOrder(t *testing.T) {
	p := cert.Policy{}
	old, o := upToDate(t)
	o.Now = start.Add(cert.DefaultLife / 3 * 2)
	staged := carry(t, p, o)
	require.Equal(t, old.Hash(), staged.Hash(), "the pair in use is kept")
	require.NotNil(t, staged.Next)
	require.Len(t, staged.Hashes(), 2)

	o.Data, o.Recorded = staged.Data(), staged.Hashes()
	d := p.Decide(o)
	require.Equal(t, cert.Keep, d.Action, "the next CA is not trusted yet")
	require.NotEmpty(t, d.Message)
	require.Equal(t, string(staged.Trust()), string(d.Set.Trust()), "the decision contains all CAs that configurations must trust")

	o.Bundles = [][]byte{staged.Trust(), old.Trust()}
	require.Equal(t, cert.Keep, p.Decide(o).Action, "the next CA is not trusted by all callers")

	o.Bundles, o.TrustedFor = [][]byte{staged.Trust(), staged.Trust()}, cert.DefaultSettle-time.Second
	d = p.Decide(o)
	require.Equal(t, cert.Keep, d.Action, "the next CA has not been trusted long enough")
	require.Equal(t, time.Second, d.After)

	o.TrustedFor = cert.DefaultSettle
	require.Equal(t, cert.Promote, p.Decide(o).Action)
	promoted := carry(t, p, o)
	require.Equal(t, cert.Hash(staged.Next.CA), promoted.Hash())
	require.Nil(t, promoted.Next)
	require.ElementsMatch(t, staged.Hashes(), promoted.Hashes())

	o.Data, o.Running = promoted.Data(), false
	require.Equal(t, cert.Keep, p.Decide(o).Action, "Pods are being rolled")
	o.Running = true
	d = p.Decide(o)
	require.Equal(t, cert.Retire, d.Action)
	require.Equal(t, cert.Rolled, d.Reason)
	retired := carry(t, p, o)
	require.Equal(t, []string{promoted.Hash()}, retired.Hashes())
	require.Len(t, retired.Data(), 3)
}

func carry(t *testing.T, p cert.Policy, o cert.Observed) cert.Set {
	t.Helper()
	set, err := p.Carry(p.Decide(o), o)
	require.NoError(t, err)
	return set
}

func TestAnEditedStagedPairIsReplaced(t *testing.T) {
	old, o := upToDate(t)
	next := issue(t)
	staged := cert.Set{Current: old.Current, Next: &next}
	for _, tc := range []struct {
		name   string
		given  func()
		reason cert.Reason
	}{
		{"a missing key", func() { delete(o.Data, "next.tls.key") }, cert.Tampered},
		{"a CA that was not recorded", func() { o.Recorded = old.Hashes() }, cert.CAChanged},
		{"other hosts", func() {
			pair, err := cert.Policy{}.Issue(start, []string{"x"})
			require.NoError(t, err)
			o.Data = cert.Set{Current: old.Current, Next: &pair}.Data()
			o.Recorded = append(o.Recorded, cert.Hash(pair.CA))
		}, cert.HostNames},
		{"near expiry", func() {
			pair, err := cert.Policy{Life: time.Hour}.Issue(start.Add(-time.Hour), hosts)
			require.NoError(t, err)
			o.Data = cert.Set{Current: old.Current, Next: &pair}.Data()
			o.Recorded = append(o.Recorded, cert.Hash(pair.CA))
		}, cert.NearExpiry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o.Data, o.Recorded, o.TrustedFor = staged.Data(), staged.Hashes(), time.Hour
			o.Bundles = [][]byte{staged.Trust()}
			tc.given()
			d := cert.Policy{}.Decide(o)
			require.Equal(t, cert.Stage, d.Action)
			require.Equal(t, tc.reason, d.Reason)
			require.Equal(t, old.Hash(), carry(t, cert.Policy{}, o).Hash(), "the pair in use is kept")
		})
	}
}

func TestAReplacedPairIsTrustedWhilePodsUseIt(t *testing.T) {
	old, o := upToDate(t)
	trusted := func() []byte { return carry(t, cert.Policy{}, o).Trust() }
	o.Data = nil // deleted by a user; Pods still have the pair in memory
	require.True(t, cert.Trusts(trusted(), old.Current.CA))
	require.Equal(t, cert.Replace, cert.Policy{}.Decide(o).Action)

	foreign := foreignPair(t)
	o.Data = cert.Set{Current: foreign}.Data()
	require.True(t, cert.Trusts(trusted(), old.Current.CA))
	require.False(t, cert.Trusts(trusted(), foreign.CA), "a CA that Remit did not issue never reaches a caBundle")

	o.Bundles = append(o.Bundles, foreign.CA)
	require.False(t, cert.Trusts(trusted(), foreign.CA), "a CA that Remit did not issue is removed from a caBundle")

	o.Now = start.Add(cert.DefaultLife)
	require.False(t, cert.Trusts(trusted(), old.Current.CA), "the old CA has expired")
}

func TestManuallyAddedPreviousCAsAreIgnored(t *testing.T) {
	_, o := upToDate(t)
	evil := issue(t)
	o.Data["previous.olmCAKey"] = evil.CA
	o.Running = false
	d := cert.Policy{}.Decide(o)
	require.Equal(t, cert.Keep, d.Action)
	require.False(t, cert.Trusts(d.Set.Trust(), evil.CA))
}

func TestAnUnstoredPairIsIssuedNext(t *testing.T) {
	old, o := upToDate(t)
	o.Data = nil
	first := carry(t, cert.Policy{}, o)
	// The pair is recorded on the Service and callers trust it, but the write of the Secret was rejected.
	o.Unstored, o.Recorded, o.Bundles = &first.Current, first.Hashes(), [][]byte{first.Trust()}
	again := carry(t, cert.Policy{}, o)
	require.Equal(t, first.Data(), again.Data())
	require.Equal(t, first.Hashes(), again.Hashes())

	o.Data, o.Recorded = old.Data(), append(o.Recorded, old.Hashes()...)
	o.Now = start.Add(cert.DefaultLife/3*2 - time.Minute)
	require.Equal(t, cert.Keep, cert.Policy{}.Decide(o).Action)
	o.Now = o.Now.Add(time.Minute)
	young, err := cert.Policy{}.Issue(o.Now, hosts)
	require.NoError(t, err)
	o.Unstored = &young
	require.Equal(t, string(young.Certificate), string(carry(t, cert.Policy{}, o).Next.Certificate))
	o.Hosts = cert.Hosts("demo", "t2")
	require.NotEqual(t, cert.Hash(young.CA), carry(t, cert.Policy{}, o).Hash(), "the hosts of the unstored pair differ")
	o.Hosts, o.Unstored = hosts, &old.Current
	require.NotEqual(t, old.Hash(), cert.Hash(carry(t, cert.Policy{}, o).Next.CA), "the unstored pair is itself near expiry")
}

func TestCarryRequiresAStagedPairToPromote(t *testing.T) {
	_, err := cert.Policy{}.Carry(cert.Decision{Action: cert.Promote}, cert.Observed{})
	require.Error(t, err)
	set, err := cert.Policy{}.Carry(cert.Decision{Action: cert.Keep}, cert.Observed{})
	require.NoError(t, err)
	require.True(t, set.IsZero())
}
