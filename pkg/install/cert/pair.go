package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

const (
	// organization and commonName tell authorities that Remit issued from others'. Neither proves anything.
	organization = "Remit"
	commonName   = "olm-selfsigned-"
	// maxPEM bounds what is parsed of a Secret.
	maxPEM = 64 << 10

	blockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
)

// Pair is a serving certificate with its key, and the authority that signed it; all PEM.
type Pair struct {
	CA          []byte
	Certificate []byte
	Key         PrivateKey
}

// Issue makes a pair for the hosts, which is valid from now for the policy's life.
func (p Policy) Issue(now time.Time, hosts []string) (Pair, error) {
	authority, err := p.newTemplate(now)
	if err != nil {
		return Pair{}, err
	}
	authority.Subject = pkix.Name{Organization: []string{organization}, CommonName: commonName + authority.SerialNumber.Text(16)}
	authority.IsCA, authority.MaxPathLenZero, authority.BasicConstraintsValid = true, true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	leaf, err := p.newTemplate(now)
	if err != nil {
		return Pair{}, err
	}
	leaf.Subject = pkix.Name{Organization: []string{organization}}
	leaf.DNSNames = hosts
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return sign(authority, leaf)
}

func (p Policy) newTemplate(now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-p.backdate()), NotAfter: now.Add(p.life())}, nil
}

// sign signs the authority by itself and the leaf by the authority, whose key ends here.
func sign(authority, leaf *x509.Certificate) (Pair, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("key of the authority: %w", err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("serving key: %w", err)
	}
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the authority: %w", err)
	}
	signer, err := x509.ParseCertificate(ca)
	if err != nil {
		return Pair{}, fmt.Errorf("parse the authority: %w", err)
	}
	certificate, err := x509.CreateCertificate(rand.Reader, leaf, signer, leafKey.Public(), authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the serving certificate: %w", err)
	}
	key, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		return Pair{}, errors.New("encode the serving key") // the cause might quote it
	}
	return Pair{CA: encode(blockCertificate, ca), Certificate: encode(blockCertificate, certificate), Key: newPrivateKey(encode(blockKey, key))}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Hash names an authority: SHA-256 of its certificate, in hex; "" of what is no single certificate.
func Hash(ca []byte) string {
	parsed, err := parseOne(ca)
	if err != nil {
		return ""
	}
	return hashOf(parsed)
}

func hashOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// parseOne reads exactly one certificate.
func parseOne(data []byte) (*x509.Certificate, error) {
	all := parseAll(data)
	if len(all) != 1 {
		return nil, errors.New("it is not one certificate")
	}
	return all[0], nil
}

// parseAll reads the certificates of a bundle; what is none is passed over.
func parseAll(data []byte) []*x509.Certificate {
	if len(data) > maxPEM {
		return nil
	}
	var out []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == blockCertificate {
			out = append(out, c)
		}
	}
	return out
}

// check says what keeps a pair from being one that Remit issued for the hosts: a reason, and for people
// which part of it. It quotes nothing of the content.
func (p Pair) check(hosts []string) (Reason, string) {
	ca, err := parseOne(p.CA)
	if err != nil {
		return Tampered, "the authority is not one certificate"
	}
	if !slices.Equal(ca.Subject.Organization, []string{organization}) || !strings.HasPrefix(ca.Subject.CommonName, commonName) {
		return NotIssuedHere, "the authority is not one that Remit issues"
	}
	leaf, err := parseOne(p.Certificate)
	if err != nil {
		return Tampered, "the serving certificate is not one certificate"
	}
	if len(p.Key.PEM()) > maxPEM {
		return Tampered, "the private key is too long"
	}
	if _, err := tls.X509KeyPair(p.Certificate, p.Key.PEM()); err != nil {
		return Tampered, "the private key is not that of the serving certificate"
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	// The time is looked at elsewhere: expiry is no tampering.
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore}); err != nil {
		return Tampered, "the authority did not sign the serving certificate"
	}
	if ca.NotAfter.Before(leaf.NotAfter) {
		return Tampered, "the authority expires before the serving certificate"
	}
	if !slices.Equal(leaf.DNSNames, hosts) {
		return HostNames, fmt.Sprintf("the serving certificate is not for %s", strings.Join(hosts, ", "))
	}
	return "", ""
}

// Trusts says whether a caBundle holds an authority.
func Trusts(bundle, ca []byte) bool { return TrustsHash(bundle, Hash(ca)) }

// TrustsHash says whether a caBundle holds the authority of a hash.
func TrustsHash(bundle []byte, hash string) bool {
	return slices.ContainsFunc(parseAll(bundle), func(c *x509.Certificate) bool { return hashOf(c) == hash })
}
