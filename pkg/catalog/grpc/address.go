package grpc

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultClusterDomain is the DNS domain of Services in most clusters.
const DefaultClusterDomain = "cluster.local"

// Scope says what a CatalogSource may dial.
type Scope struct {
	// Namespace of the CatalogSource.
	Namespace string
	// Anywhere is true in the global catalog namespace, whose authors speak for the whole cluster.
	Anywhere bool
	// ClusterDomain is the DNS domain of Services; empty is DefaultClusterDomain.
	ClusterDomain string
}

// Target checks spec.address against the scope and returns what to dial. Outside the global catalog
// namespace only a Service of the CatalogSource's own namespace is allowed, so that nobody can use
// this program to reach hosts that they could not reach themselves; and such an address is
// dialled as <service>.<namespace>.svc, which is a name outside the cluster only where the Service says so
// (type ExternalName): that is for the caller to see.
func (s Scope) Target(address string) (string, error) {
	host, port, err := split(address)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", address, err)
	}
	if s.Anywhere {
		return net.JoinHostPort(host, port), nil
	}
	service, ok := s.service(host)
	if !ok {
		return "", fmt.Errorf("address %q: a CatalogSource in namespace %q may only name a Service of its own namespace "+
			"(<service>.%s.svc:<port>)", address, s.Namespace, s.Namespace)
	}
	return net.JoinHostPort(service+"."+s.Namespace+".svc", port), nil
}

func (s Scope) service(host string) (string, bool) {
	domain := s.ClusterDomain
	if domain == "" {
		domain = DefaultClusterDomain
	}
	host = strings.TrimSuffix(host, ".")
	for _, suffix := range []string{".svc." + domain, ".svc", ""} {
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
