package image

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Private contains the private addresses and the hosts from which tenants can pull images.
type Private struct {
	networks []netip.Prefix
	hosts    []string
}

// ParsePrivate parses a list of CIDRs and HOST[:PORT] values.
func ParsePrivate(texts []string) (Private, error) {
	var out Private
	for _, text := range texts {
		if network, err := netip.ParsePrefix(text); err == nil {
			out.networks = append(out.networks, network.Masked())
			continue
		}
		if text == "" || strings.ContainsAny(text, "/ ") {
			return out, fmt.Errorf("%q: must be a CIDR or HOST[:PORT]", text)
		}
		out.hosts = append(out.hosts, text)
	}
	return out, nil
}

// names reports whether a registry is one of the hosts, with or without its port.
func (p Private) names(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	return slices.Contains(p.hosts, hostPort) || err == nil && slices.Contains(p.hosts, host)
}

func (p Private) contains(at netip.Addr) bool {
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(at) })
}

// refuse returns an error if tenants must not connect to an address.
func (p Private) refuse(asked string, at netip.Addr) error {
	at = withoutNAT64(at.Unmap().WithZone(""))
	switch {
	case p.contains(at):
		return nil
	case IsLocal(at):
		return fmt.Errorf("%s is a loopback or link-local address; images are not pulled from such addresses", asked)
	case isPrivate(at):
		return fmt.Errorf("%s has a private address; tenants can pull images from it only if --private-registry allows it", asked)
	}
	return nil
}

// withoutNAT64 returns the IPv4 address that is embedded in an address with NAT64's well-known prefix. It returns other
// addresses unchanged.
func withoutNAT64(at netip.Addr) netip.Addr {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(at) {
		return at
	}
	all := at.As16()
	return netip.AddrFrom4([4]byte(all[12:]))
}

// IsLocal reports whether an address is loopback, link-local, multicast or unspecified. Remit never connects to such addresses
// on behalf of a tenant.
func IsLocal(at netip.Addr) bool {
	ip := at.Unmap()
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()
}

// isPrivate reports whether an address is, or may be, outside the public internet: it belongs to an IANA
// special-purpose registry, embeds an IPv4 address that may be private, or is the public address of Azure's metadata
// service.
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
