package network

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

// Services contains the listers that the Resolver uses, for the Services and EndpointSlices of the cluster.
type Services struct {
	Services corelisters.ServiceLister
	Slices   discoverylisters.EndpointSliceLister
}

// Resolver maps an address as seen by a Pod to one that can be dialed on this machine.
type Resolver struct {
	Net PodNet
	// Listers returns nil until the API server is running. Until then, only Pod and loopback addresses are resolved.
	Listers func() *Services
}

// Dial is a Dialer that resolves addresses.
func (r *Resolver) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	target, err := r.Resolve(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, network, target)
}

// Resolve maps host:port:
//
//	10.N.x.y                              the Pod's loopback address
//	10.96.0.1, kubernetes.default.svc     the API server
//	a cluster IP, NAME.NAMESPACE.svc      a random ready endpoint of the Service
//	anything else                         itself (loopback addresses, external hosts)
func (r *Resolver) Resolve(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return r.resolveAddr(addr, port, address)
	}
	namespace, name, ok := serviceName(host)
	if !ok {
		return address, nil
	}
	if namespace == "default" && name == "kubernetes" {
		return r.Net.APIAddr().String(), nil
	}
	listers := r.Listers()
	if listers == nil {
		return "", fmt.Errorf("%s: the API server is not running yet", host)
	}
	service, err := listers.Services.Services(namespace).Get(name)
	if err != nil {
		return "", err
	}
	return r.endpoint(listers, service, port)
}

func (r *Resolver) resolveAddr(addr netip.Addr, port, address string) (string, error) {
	switch {
	case r.Net.Contains(addr):
		return net.JoinHostPort(r.Net.Local(addr).String(), port), nil
	case addr.String() == ServiceAddr:
		return r.Net.APIAddr().String(), nil
	case !netip.MustParsePrefix(ServiceCIDR).Contains(addr):
		return address, nil
	}
	listers := r.Listers()
	if listers == nil {
		return "", fmt.Errorf("%s: the API server is not running yet", address)
	}
	services, err := listers.Services.List(labels.Everything())
	if err != nil {
		return "", err
	}
	for _, s := range services {
		if s.Spec.ClusterIP == addr.String() {
			return r.endpoint(listers, s, port)
		}
	}
	return "", fmt.Errorf("no Service has cluster IP %s", addr)
}

// endpoint picks a random ready endpoint of the Service for one of its ports.
func (r *Resolver) endpoint(listers *Services, service *corev1.Service, port string) (string, error) {
	portName, err := servicePort(service, port)
	if err != nil {
		return "", err
	}
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})
	slices, err := listers.Slices.EndpointSlices(service.Namespace).List(selector)
	if err != nil {
		return "", err
	}
	var ready []string
	for _, s := range slices {
		ready = append(ready, r.readyAddresses(s, portName)...)
	}
	if len(ready) == 0 {
		return "", fmt.Errorf("no ready endpoint for Service %s/%s port %s", service.Namespace, service.Name, port)
	}
	return ready[rand.IntN(len(ready))], nil //nolint:gosec // only distributes load
}

func (r *Resolver) readyAddresses(slice *discoveryv1.EndpointSlice, portName string) []string {
	var out []string
	for _, p := range slice.Ports {
		if p.Port == nil || *p.Port < 0 || *p.Port > math.MaxUint16 || (p.Name != nil && *p.Name != portName) {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				addr, err := netip.ParseAddr(a)
				if err != nil {
					continue
				}
				if r.Net.Contains(addr) {
					addr = r.Net.Local(addr)
				}
				out = append(out, netip.AddrPortFrom(addr, uint16(*p.Port)).String())
			}
		}
	}
	return out
}

// servicePort returns the name (possibly empty) of the Service's port with that number.
func servicePort(service *corev1.Service, port string) (string, error) {
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return "", err
	}
	for _, p := range service.Spec.Ports {
		if p.Port == int32(number) {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("Service %s/%s has no port %s", service.Namespace, service.Name, port)
}

// serviceName splits NAME.NAMESPACE.svc[.cluster.local].
func serviceName(host string) (namespace, name string, ok bool) {
	host = strings.TrimSuffix(strings.TrimSuffix(host, "."), ".cluster.local")
	parts := strings.Split(host, ".")
	if len(parts) != 3 || parts[2] != "svc" {
		return "", "", false
	}
	return parts[1], parts[0], true
}
