package grpc

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultClusterDomain is the DNS domain of Services in most clusters.
const DefaultClusterDomain = "cluster.local"

// Scope contains the settings for validating a CatalogSource's address.
type Scope struct {
	// Namespace is the namespace of the CatalogSource.
	Namespace string
	// ClusterDomain is the DNS domain of Services; it defaults to DefaultClusterDomain.
	ClusterDomain string
}

// Service identifies a port of a Service.
type Service struct{ Name, Port string }

// Service validates spec.address of a CatalogSource outside the global catalog namespace. Only a Service in the
// CatalogSource's own namespace is allowed, so that users cannot reach hosts through Remit that they cannot reach
// themselves. The caller must check what the Service refers to.
func (s Scope) Service(address string) (Service, error) {
	host, port, err := split(address)
	if err != nil {
		return Service{}, fmt.Errorf("address %q: %w", address, err)
	}
	name, ok := s.service(host)
	if !ok {
		return Service{}, fmt.Errorf("address %q: a CatalogSource in namespace %q can only use a Service in its own namespace "+
			"(<service>.%s.svc:<port>)", address, s.Namespace, s.Namespace)
	}
	return Service{Name: name, Port: port}, nil
}

// Target validates spec.address of a CatalogSource in the global catalog namespace and returns the address to dial. A name
// with at least three labels, such as a Service's, is made absolute with a trailing dot: search domains could otherwise
// resolve it to a Service of a tenant whose namespace is named "svc" or "com".
func (s Scope) Target(address string) (string, error) {
	host, port, err := split(address)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", address, err)
	}
	return net.JoinHostPort(s.absolute(host), port), nil
}

func (s Scope) absolute(host string) string {
	if strings.HasSuffix(host, ".") || strings.Count(host, ".") < 2 || net.ParseIP(host) != nil {
		return host
	}
	if name, ok := strings.CutSuffix(host, ".svc"); ok {
		return name + ".svc." + s.domain() + "."
	}
	return host + "."
}

func (s Scope) domain() string { return cmp.Or(s.ClusterDomain, DefaultClusterDomain) }

func (s Scope) service(host string) (string, bool) {
	host = strings.TrimSuffix(host, ".")
	for _, suffix := range []string{".svc." + s.domain(), ".svc", ""} {
		name, ok := strings.CutSuffix(host, "."+s.Namespace+suffix)
		if ok && len(validation.IsDNS1123Label(name)) == 0 {
			return name, true
		}
	}
	return "", false
}

// split splits an address of the form host:port. It refuses URLs, because gRPC interprets unix:, passthrough: and other
// schemes.
func split(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", errors.New("must have the form <host>:<port>")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", errors.New("invalid port")
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", errors.New("invalid host")
	}
	return host, port, nil
}
