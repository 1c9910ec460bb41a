package image

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Private are registries at private addresses from which images of tenants may be pulled.
type Private struct {
	networks []netip.Prefix
	hosts    []string
}

// ParsePrivate reads CIDRs and HOST[:PORT]s.
func ParsePrivate(texts []string) (Private, error) {
	var out Private
	for _, text := range texts {
		if network, err := netip.ParsePrefix(text); err == nil {
			out.networks = append(out.networks, network.Masked())
			continue
		}
		if text == "" || strings.ContainsAny(text, "/ ") {
			return out, fmt.Errorf("%q: want CIDR or HOST[:PORT]", text)
		}
		out.hosts = append(out.hosts, text)
	}
	return out, nil
}

// names says whether a registry is one of the hosts.
func (p Private) names(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	return slices.Contains(p.hosts, hostPort) || err == nil && slices.Contains(p.hosts, host)
}

func (p Private) contains(at netip.Addr) bool {
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(at) })
}

// refuse says why an address is not dialed for a tenant, if it is not.
func (p Private) refuse(asked string, at netip.Addr) error {
	at = withoutNAT64(at.Unmap().WithZone(""))
	switch {
	case p.contains(at):
		return nil
	case IsNear(at):
		return fmt.Errorf("%s is an address of this machine or its link, where no registry is looked for", asked)
	case isPrivate(at):
		return fmt.Errorf("%s is at a private address; images of tenants are pulled from there only where --private-registry allows it", asked)
	}
	return nil
}

// withoutNAT64 is the IPv4 address that one of NAT64's well-known prefix stands for.
func withoutNAT64(at netip.Addr) netip.Addr {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(at) {
		return at
	}
	all := at.As16()
	return netip.AddrFrom4([4]byte(all[12:]))
}

// IsNear says whether an address is of this machine or its link, or of nobody: such a one is dialled for no stranger.
func IsNear(at netip.Addr) bool {
	ip := at.Unmap()
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()
}

// isPrivate says whether an address is not one of the public internet: those of the IANA special-purpose registries, those that
// carry an IPv4 address within, which may be a private one, and Azure's metadata service, which has a public address.
func isPrivate(at netip.Addr) bool {
	if !at.IsGlobalUnicast() || at.IsPrivate() {
		return true
	}
	return slices.ContainsFunc([]string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "168.63.129.16/32",
		"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	}, func(network string) bool { return netip.MustParsePrefix(network).Contains(at) })
}
