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

// Scope is where a CatalogSource's address is looked up.
type Scope struct {
	// Namespace of the CatalogSource.
	Namespace string
	// ClusterDomain is the DNS domain of Services; empty is DefaultClusterDomain.
	ClusterDomain string
}

// Service is a port of a Service that an address names.
type Service struct{ Name, Port string }

// Service checks spec.address of a CatalogSource outside the global catalog namespace. Only a Service of the CatalogSource's own
// namespace is allowed, so that nobody can use this program to reach hosts that they could not reach themselves. Where such
// a Service leads is for the caller to see.
func (s Scope) Service(address string) (Service, error) {
	host, port, err := split(address)
	if err != nil {
		return Service{}, fmt.Errorf("address %q: %w", address, err)
	}
	name, ok := s.service(host)
	if !ok {
		return Service{}, fmt.Errorf("address %q: a CatalogSource in namespace %q may only name a Service of its own namespace "+
			"(<service>.%s.svc:<port>)", address, s.Namespace, s.Namespace)
	}
	return Service{Name: name, Port: port}, nil
}

// Target checks spec.address of a CatalogSource in the global catalog namespace and returns what to dial. A name of three
// words and more, a Service's among them, is dialed as it is: with a final dot it is looked up in no search domain, where a tenant's
// namespace "svc" or "com" could answer in its place.
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

// split takes only host:port, never a URL: gRPC gives meaning to unix:, passthrough: and others.
func split(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", errors.New("is not <host>:<port>")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", errors.New("has no valid port")
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", errors.New("has no valid host")
	}
	return host, port, nil
}
