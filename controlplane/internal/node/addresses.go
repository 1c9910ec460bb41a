package node

import (
	"errors"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/controlplane/internal/network"
)

// lastPodOctet is the highest third octet of the addresses that are assigned to Pods. Higher addresses are reserved for
// tests that simulate Pods; see package network.
const lastPodOctet = 199

// addresses assigns Pod IPs. A released address is reused as late as possible, so that connections to outdated
// endpoints fail instead of reaching another Pod.
type addresses struct {
	net network.PodNet

	mu    sync.Mutex
	next  int
	byPod map[types.UID]netip.Addr
	inUse map[netip.Addr]bool
}

func newAddresses(net network.PodNet) *addresses {
	return &addresses{net: net, byPod: map[types.UID]netip.Addr{}, inUse: map[netip.Addr]bool{}}
}

// assign returns the address of the Pod: the current one, the one in its status (after a restart with the same
// network), or a new one.
func (a *addresses) assign(uid types.UID, claimed string) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ip, ok := a.byPod[uid]; ok {
		return ip, nil
	}
	if ip, err := netip.ParseAddr(claimed); err == nil && a.net.Contains(ip) && !a.inUse[ip] {
		return a.take(uid, ip), nil
	}
	const size = (lastPodOctet + 1) * 254
	for range size {
		x, y := byte(a.next/254), byte(a.next%254+1) //nolint:gosec // next is less than size
		a.next = (a.next + 1) % size
		if ip := a.net.Pod(x, y); !a.inUse[ip] {
			return a.take(uid, ip), nil
		}
	}
	return netip.Addr{}, errors.New("no free Pod address")
}

func (a *addresses) release(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ip, ok := a.byPod[uid]; ok {
		delete(a.byPod, uid)
		delete(a.inUse, ip)
	}
}

func (a *addresses) take(uid types.UID, ip netip.Addr) netip.Addr {
	a.byPod[uid], a.inUse[ip] = ip, true
	return ip
}
