package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/remit-olm/remit/controlplane/internal/component"
	"github.com/remit-olm/remit/controlplane/internal/node"
	"github.com/remit-olm/remit/controlplane/internal/pod"
	"github.com/remit-olm/remit/controlplane/internal/process"
)

// startNode registers the node and runs its Pods. Tasks that last as long as the cluster use the background context.
func (c *cluster) startNode(ctx, background context.Context) error {
	if err := node.Register(ctx, c.client, c.net); err != nil {
		return err
	}
	go node.Heartbeat(background, c.client)
	launcher, err := process.New()
	if err != nil {
		return err
	}
	c.pods = node.NewPods(&pod.Host{
		Client: c.client, Images: c.options.images, Launcher: launcher, Net: c.net, Cluster: c.id.cluster,
		Dir: filepath.Join(c.options.dir, "pods"), Allocatable: node.Allocatable(),
	})
	if err := c.pods.Start(background); err != nil {
		return err
	}
	return c.serveLogs()
}

func (c *cluster) serveLogs() error {
	certificate, err := tls.LoadX509KeyPair(c.id.kubeletServing.Cert, c.id.kubeletServing.Key)
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(c.id.ca.CertPEM())
	l, err := net.Listen("tcp", c.net.KubeletAddr().String())
	if err != nil {
		return err
	}
	c.closers = append(c.closers, l)
	server := &node.LogServer{Pods: c.pods, Certificate: certificate, ClientCAs: clients, Client: component.KubeletClientUser}
	server.Serve(l)
	return nil
}

// waitUsable waits until Pods can run: until the default ServiceAccount and its namespace's trust bundle exist, and the
// node is ready and has no taints.
func (c *cluster) waitUsable(ctx context.Context) error {
	var missing error
	err := wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		for _, r := range c.running {
			select {
			case <-r.Done(): // the cluster can no longer become usable
				return false, r.Err()
			default:
			}
		}
		missing = c.usable(ctx)
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, missing)
	}
	return nil
}

func (c *cluster) usable(ctx context.Context) error {
	core := c.client.CoreV1()
	if _, err := core.ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	if _, err := core.ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
		return err
	}
	n, err := core.Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(n.Spec.Taints) > 0 {
		return fmt.Errorf("node %s has taints %v", n.Name, n.Spec.Taints)
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", n.Name)
}
