package main

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/remit-olm/remit/controlplane/internal/component"
	"github.com/remit-olm/remit/controlplane/internal/network"
	"github.com/remit-olm/remit/controlplane/internal/node"
	"github.com/remit-olm/remit/controlplane/internal/pki"
)

const (
	adminKubeconfig = "kubeconfig"
	mastersGroup    = "system:masters"
)

// identities are the keys, certificates and kubeconfigs of all components.
type identities struct {
	dir       string
	cluster   pki.Cluster
	ca, front *pki.Authority

	accountKey                                             string
	serving, kubeletClient, frontProxy, kubeletServing     component.Pair
	nodeKubeconfig, managerKubeconfig, schedulerKubeconfig string

	etcdServer string
}

func newIdentities(dir string, podNet network.PodNet) (*identities, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	id := &identities{dir: dir}
	var err error
	if id.ca, err = pki.OpenAuthority(dir, "ca"); err != nil {
		return nil, err
	}
	if id.front, err = pki.OpenAuthority(dir, "front-proxy-ca"); err != nil {
		return nil, err
	}
	if id.accountKey, err = pki.OpenKey(dir, "service-account"); err != nil {
		return nil, err
	}
	id.cluster = pki.Cluster{Server: "https://" + podNet.APIAddr().String(), CAPEM: id.ca.CertPEM()}
	if err := id.issue(podNet); err != nil {
		return nil, err
	}
	return id, id.writeComponents()
}

// issue creates the servers' certificates, and the client certificates with which the API server authenticates to other
// servers.
func (id *identities) issue(podNet network.PodNet) error {
	apiIPs := ips(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr(network.ServiceAddr), podNet.APIAddr().Addr(), podNet.APIPodAddr())
	leaves := []struct {
		authority *pki.Authority
		name      string
		subject   pki.Subject
		pair      *component.Pair
	}{
		{id.ca, "apiserver", pki.Subject{User: "kube-apiserver", IPs: apiIPs, Names: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}}, &id.serving},
		{id.ca, "kubelet", pki.Subject{
			User: "system:node:" + node.Name, IPs: ips(podNet.NodeAddr(), podNet.KubeletAddr().Addr()), Names: []string{node.Name},
		}, &id.kubeletServing},
		// Members of this group may proxy to nodes and Pods without further RBAC.
		{id.ca, "kubelet-client", pki.Subject{User: component.KubeletClientUser, Groups: []string{mastersGroup}}, &id.kubeletClient},
		{id.front, "front-proxy", pki.Subject{User: component.FrontProxyUser}, &id.frontProxy},
	}
	for _, l := range leaves {
		var err error
		if l.pair.Cert, l.pair.Key, err = l.authority.IssueFiles(id.dir, l.name, l.subject); err != nil {
			return err
		}
	}
	return nil
}

// writeComponents writes the kubeconfigs of the components. The node stand-in is allowed to do everything: its
// permissions are not tested, and only its user name matters, because the audit policy excludes it.
func (id *identities) writeComponents() error {
	for _, k := range []struct {
		file    *string
		subject pki.Subject
	}{
		{&id.nodeKubeconfig, pki.Subject{User: component.NodeUser, Groups: []string{mastersGroup}}},
		{&id.managerKubeconfig, pki.Subject{User: component.ControllerManagerUser}},
		{&id.schedulerKubeconfig, pki.Subject{User: component.SchedulerUser}},
	} {
		*k.file = filepath.Join(id.dir, k.subject.User[len("system:"):]+".kubeconfig")
		if err := id.ca.WriteClientKubeconfig(*k.file, id.cluster, k.subject); err != nil {
			return err
		}
	}
	return nil
}

// writeAdmin writes the kubeconfig for users of the control plane.
func (id *identities) writeAdmin(dir string) error {
	subject := pki.Subject{User: component.AdminUser, Groups: []string{mastersGroup}}
	return id.ca.WriteClientKubeconfig(filepath.Join(dir, adminKubeconfig), id.cluster, subject)
}

func ips(addrs ...netip.Addr) []net.IP {
	var out []net.IP
	for _, a := range addrs {
		out = append(out, net.IP(a.AsSlice()))
	}
	return out
}
