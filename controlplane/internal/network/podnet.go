package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// ServiceCIDR is the range of cluster IPs.
	ServiceCIDR = "10.96.0.0/16"
	// ServiceAddr is the API server's cluster IP.
	ServiceAddr = "10.96.0.1"

	// APIPort is the API server's port, on the address that ends in 255.254.
	APIPort = 6443
	// KubeletPort is the kubelet stand-in's port, on the address that ends in 255.253.
	KubeletPort = 10250
	// ProxyPort is the HTTP proxy's port, on the address that ends in 255.252.
	ProxyPort = 3128

	apiSuffix, kubeletSuffix, proxySuffix = 254, 253, 252

	netFile    = "net"
	lastPodNet = 254
	serviceNet = 96 // Service IPs are in 10.96/16
)

// PodNet is the network 10.N.0.0/16 of one control plane.
type PodNet struct{ n byte }

// Claim picks a free network. It reserves the network by listening on the address of the network's API server until the
// returned listener is closed. The choice is stored in dir, so that the addresses stay the same after a restart unless
// another process has taken them in the meantime.
func Claim(dir string) (PodNet, net.Listener, error) {
	file := filepath.Join(dir, netFile)
	candidates := rand.Perm(lastPodNet) //nolint:gosec // the choice only avoids collisions
	if text, err := os.ReadFile(file); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			candidates = append([]int{n - 1}, candidates...)
		}
	}
	for _, c := range candidates {
		p := PodNet{n: byte(c + 1)} //nolint:gosec // the listener below fails for a stored number that is too large
		if p.n == serviceNet || p.n == 0 {
			continue
		}
		l, err := net.Listen("tcp", p.APIAddr().String())
		if err != nil {
			continue
		}
		return p, l, os.WriteFile(file, []byte(strconv.Itoa(int(p.n))), 0o600)
	}
	return PodNet{}, nil, errors.New("no free network: 127.N.255.254 is in use for every N")
}

// CIDR returns the network in CIDR notation.
func (p PodNet) CIDR() string { return fmt.Sprintf("10.%d.0.0/16", p.n) }

// Pod returns the address 10.N.x.y, as it appears in the API.
func (p PodNet) Pod(x, y byte) netip.Addr { return netip.AddrFrom4([4]byte{10, p.n, x, y}) }

// Contains reports whether the address is a Pod address of this network.
func (p PodNet) Contains(a netip.Addr) bool {
	b, ok := quad(a)
	return ok && b[0] == 10 && b[1] == p.n
}

// Local maps 10.N.x.y to the loopback address 127.N.x.y on which the Pod's process listens.
func (p PodNet) Local(a netip.Addr) netip.Addr {
	b, ok := quad(a)
	if !ok {
		return a
	}
	return netip.AddrFrom4([4]byte{127, p.n, b[2], b[3]})
}

// APIAddr returns the address on which the API server listens.
func (p PodNet) APIAddr() netip.AddrPort { return p.local(apiSuffix, APIPort) }

// APIPodAddr returns the address that the API server advertises.
func (p PodNet) APIPodAddr() netip.Addr { return p.Pod(255, apiSuffix) }

// NodeAddr returns the address of the node.
func (p PodNet) NodeAddr() netip.Addr { return p.Pod(255, kubeletSuffix) }

// KubeletAddr returns the address on which the kubelet stand-in listens.
func (p PodNet) KubeletAddr() netip.AddrPort { return p.local(kubeletSuffix, KubeletPort) }

// ProxyAddr returns the address on which the HTTP proxy listens.
func (p PodNet) ProxyAddr() netip.AddrPort { return p.local(proxySuffix, ProxyPort) }

func (p PodNet) local(suffix byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, p.n, 255, suffix}), port)
}

func quad(a netip.Addr) (b [4]byte, ok bool) {
	a = a.Unmap()
	if !a.Is4() {
		return b, false
	}
	return a.As4(), true
}
