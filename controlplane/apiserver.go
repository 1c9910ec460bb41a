package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/remit-olm/remit/controlplane/internal/component"
	"github.com/remit-olm/remit/controlplane/internal/network"
)

const (
	readyPoll = 20 * time.Millisecond
	// readyTimeout is how long to wait for the API server. It is long because the machine may be busy compiling.
	readyTimeout = 2 * time.Minute
)

func (c *cluster) apiServerOptions() (component.APIServerOptions, error) {
	egress, policy := filepath.Join(c.options.dir, "egress.yaml"), filepath.Join(c.options.dir, "audit-policy.yaml")
	for file, content := range map[string]string{
		egress: component.EgressSelector(c.egressSocket()),
		policy: component.AuditPolicy(),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return component.APIServerOptions{}, err
		}
	}
	return component.APIServerOptions{
		Listener:    c.api,
		Advertise:   c.net.APIPodAddr().String(),
		EtcdServer:  c.id.etcdServer,
		ServiceCIDR: network.ServiceCIDR,
		Egress:      egress,
		AuditPolicy: policy,
		AuditLog:    c.options.auditLog,
		Authorizer:  c.options.authorizer,

		ClientCA:          c.id.ca.CertFile,
		RequestHeaderCA:   c.id.front.CertFile,
		Serving:           c.id.serving,
		KubeletClient:     c.id.kubeletClient,
		FrontProxy:        c.id.frontProxy,
		ServiceAccountKey: c.id.accountKey,
	}, nil
}

// waitReady waits until the API server is ready. It returns an error if the server exits or does not become ready
// within readyTimeout.
func waitReady(ctx context.Context, client kubernetes.Interface, server *component.Running) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for tick := time.Tick(readyPoll); ; {
		if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err == nil {
			return nil
		}
		select {
		case <-server.Done():
			return server.Err()
		case <-ctx.Done():
			return errors.Join(errors.New("not ready in time"), context.Cause(ctx))
		case <-tick:
		}
	}
}
