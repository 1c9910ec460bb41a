package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// validity is the lifetime of certificates. It exceeds the duration of any test run or demo, because there is no
	// rotation.
	validity = 365 * 24 * time.Hour
	// skew is how far certificates are backdated, to tolerate a clock that was set back after they were issued.
	skew = time.Hour
)

// Authority is a certificate authority whose certificate and key are stored in two files.
type Authority struct {
	CertFile, KeyFile string

	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
}

// Subject is the identity in a leaf certificate. Certificates with addresses or names are for servers, others for
// clients.
type Subject struct {
	User   string
	Groups []string
	IPs    []net.IP
	Names  []string
}

// OpenAuthority loads the authority called name from dir, or creates it there.
func OpenAuthority(dir, name string) (*Authority, error) {
	a := &Authority{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	err := a.load()
	if errors.Is(err, os.ErrNotExist) {
		err = a.create(name)
	}
	if err != nil {
		return nil, fmt.Errorf("authority %q: %w", name, err)
	}
	return a, nil
}

// CertPEM returns the authority's certificate, for kubeconfigs and trust bundles.
func (a *Authority) CertPEM() []byte { return a.certPEM }

// Issue signs a certificate for the subject with a new key and returns both as PEM.
func (a *Authority) Issue(s Subject) (certPEM, keyPEM []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	usage := x509.ExtKeyUsageClientAuth
	if len(s.IPs)+len(s.Names) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	template := newTemplate(pkix.Name{CommonName: s.User, Organization: s.Groups})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.IPAddresses, template.DNSNames = s.IPs, s.Names
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return encodeCert(der), keyPEM, err
}

// IssueFiles is like Issue, but writes the result to dir/name.crt and dir/name.key.
func (a *Authority) IssueFiles(dir, name string, s Subject) (certFile, keyFile string, err error) {
	certPEM, keyPEM, err := a.Issue(s)
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	return certFile, keyFile, writePair(certFile, certPEM, keyFile, keyPEM)
}

// OpenKey returns the path of the private key file dir/name.key and creates the key if it does not exist.
func OpenKey(dir, name string) (string, error) {
	file := filepath.Join(dir, name+".key")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	key, err := newKey()
	if err != nil {
		return "", err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, keyPEM, 0o600)
}

func (a *Authority) load() error {
	certPEM, err := os.ReadFile(a.CertFile)
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(a.KeyFile)
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return err
	}
	a.cert, a.key, a.certPEM = cert, key, certPEM
	return nil
}

func (a *Authority) create(name string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template := newTemplate(pkix.Name{CommonName: "remit-" + name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := writePair(a.CertFile, encodeCert(der), a.KeyFile, keyPEM); err != nil {
		return err
	}
	return a.load()
}

func newTemplate(name pkix.Name) *x509.Certificate {
	// 62 random bits: serial numbers have to differ but need not be unpredictable here.
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano())
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		NotBefore:    time.Now().Add(-skew),
		NotAfter:     time.Now().Add(validity),
	}
}

// newKey generates a P-256 key. This is about fifty times faster than RSA, and every component accepts such keys, including for
// ServiceAccount tokens.
func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func writePair(certFile string, certPEM []byte, keyFile string, keyPEM []byte) error {
	if err := os.WriteFile(keyFile, keyPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, certPEM, 0o600)
}
