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
	// organization and commonName distinguish CAs issued by Remit from others. They are not proof: anyone can issue a CA
	// with these names.
	organization = "Remit"
	commonName   = "olm-selfsigned-"
	// maxPEM is the maximum size, in bytes, of PEM data that is parsed.
	maxPEM = 64 << 10

	blockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
)

// Pair is a serving certificate with its key and the CA that signed it, all as PEM.
type Pair struct {
	CA          []byte
	Certificate []byte
	Key         PrivateKey
}

// Issue returns a new pair for the hosts. It expires after the policy's lifetime.
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
		return nil, fmt.Errorf("generate the serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-p.backdate()), NotAfter: now.Add(p.life())}, nil
}

// sign signs the CA with its own key and the leaf with the CA. The CA's key is then discarded.
func sign(authority, leaf *x509.Certificate) (Pair, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate the CA key: %w", err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate the serving key: %w", err)
	}
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the CA: %w", err)
	}
	signer, err := x509.ParseCertificate(ca)
	if err != nil {
		return Pair{}, fmt.Errorf("parse the CA: %w", err)
	}
	certificate, err := x509.CreateCertificate(rand.Reader, leaf, signer, leafKey.Public(), authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the serving certificate: %w", err)
	}
	key, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		return Pair{}, errors.New("encode the serving key") // err might contain the key
	}
	return Pair{CA: encode(blockCertificate, ca), Certificate: encode(blockCertificate, certificate), Key: newPrivateKey(encode(blockKey, key))}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Hash returns the hex SHA-256 of a CA's certificate, which identifies the CA, or "" unless the PEM contains exactly
// one certificate.
func Hash(ca []byte) string {
	parsed, err := parseOne(ca)
	if err != nil {
		return ""
	}
	return hashOf(parsed)
}

// TextHash returns the hex SHA-256 of a CA's PEM text, with which OLM v0 identifies the CA.
func TextHash(ca []byte) string {
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:])
}

func hashOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// parseOne returns the certificate in the PEM data, or an error if there is not exactly one.
func parseOne(data []byte) (*x509.Certificate, error) {
	all := parseAll(data)
	if len(all) != 1 {
		return nil, errors.New("expected exactly one certificate")
	}
	return all[0], nil
}

// parseAll returns the certificates of a bundle and skips everything else. It returns nil if the bundle is larger than
// maxPEM.
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

// check returns a reason and a message if the pair is not one that Remit issued for these hosts, and empty strings if
// it is. The message names the affected part but contains no data from it.
func (p Pair) check(hosts []string) (Reason, string) {
	ca, err := parseOne(p.CA)
	if err != nil {
		return Tampered, "the CA does not contain exactly one certificate"
	}
	if !slices.Equal(ca.Subject.Organization, []string{organization}) || !strings.HasPrefix(ca.Subject.CommonName, commonName) {
		return NotIssuedHere, "the CA was not issued by Remit"
	}
	leaf, err := parseOne(p.Certificate)
	if err != nil {
		return Tampered, "the serving certificate does not contain exactly one certificate"
	}
	if len(p.Key.PEM()) > maxPEM {
		return Tampered, "the private key is too long"
	}
	if _, err := tls.X509KeyPair(p.Certificate, p.Key.PEM()); err != nil {
		return Tampered, "the private key does not match the serving certificate"
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	// Expiry is checked separately, because it is not tampering.
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore}); err != nil {
		return Tampered, "the serving certificate is not signed by the CA"
	}
	if ca.NotAfter.Before(leaf.NotAfter) {
		return Tampered, "the CA expires before the serving certificate"
	}
	if !slices.Equal(leaf.DNSNames, hosts) {
		return HostNames, fmt.Sprintf("the serving certificate is not valid for %s", strings.Join(hosts, ", "))
	}
	return "", ""
}

// Trusts reports whether a caBundle contains a CA.
func Trusts(bundle, ca []byte) bool { return TrustsHash(bundle, Hash(ca)) }

// TrustsHash reports whether a caBundle contains the CA with this hash.
func TrustsHash(bundle []byte, hash string) bool {
	return slices.ContainsFunc(parseAll(bundle), func(c *x509.Certificate) bool { return hashOf(c) == hash })
}
