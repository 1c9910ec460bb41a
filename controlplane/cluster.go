package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/remit-olm/remit/controlplane/internal/component"
	"github.com/remit-olm/remit/controlplane/internal/network"
	"github.com/remit-olm/remit/controlplane/internal/node"
)

const (
	// stopTimeout is how long each component may take to stop. Then the process exits in any case.
	stopTimeout = 10 * time.Second
	// maxSocketDir is the maximum length of the socket directory's path. It leaves room for a file name, because the path of a
	// Unix socket is limited to 108 bytes.
	maxSocketDir = 90
)

// cluster is the control plane of this process. There is only one, because feature gates and logging are
// process-wide.
type cluster struct {
	options options

	net      network.PodNet
	api      net.Listener
	sockets  string
	ownSocks bool // sockets is a directory created for this cluster
	id       *identities
	listers  atomic.Pointer[network.Services]
	client   kubernetes.Interface
	pods     *node.Pods
	running  []*component.Running // in start order
	cancel   context.CancelFunc   // stops informers and heartbeat
	closers  []net.Listener       // all but the API server's listener: the API server panics if anything else closes it
}

// start starts all components in order of their dependencies and returns when the cluster is usable.
func (c *cluster) start(ctx context.Context) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"network", c.claimNetwork},
		{"keys", c.makeIdentities},
		{"proxy", c.startProxy},
		{"etcd", c.startEtcd},
		{"API server", c.startAPIServer},
		{"informers", func(context.Context) error { return c.startInformers(background) }},
		{"controllers", c.startControllers},
		{"node", func(ctx context.Context) error { return c.startNode(ctx, background) }},
		{"usable", c.waitUsable},
	}
	began := time.Now()
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		klog.InfoS("Started", "step", s.name, "sinceStart", time.Since(began).Round(time.Millisecond))
	}
	// Write this file last, because users that wait for it expect a usable cluster.
	return c.id.writeAdmin(c.options.dir)
}

// stop stops all components in reverse order: Pods first, because they use the API server, and etcd last.
func (c *cluster) stop() {
	if c.pods != nil {
		c.pods.Stop()
	}
	if c.cancel != nil {
		c.cancel()
	}
	for i := len(c.running) - 1; i >= 0; i-- {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		c.running[i].Stop(ctx)
		cancel()
	}
	c.release()
}

// abandon stops a cluster that failed to start. It must not stop an API server that is still starting: the start hooks
// would fail and exit the process with their own exit code and message. The API server stops when the process exits;
// only etcd has files to close.
func (c *cluster) abandon() {
	if c.pods != nil {
		c.pods.Stop()
	}
	if len(c.running) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		c.running[0].Stop(ctx)
	}
	c.release()
}

func (c *cluster) release() {
	for _, l := range c.closers {
		_ = l.Close()
	}
	if c.ownSocks {
		_ = os.RemoveAll(c.sockets)
	}
}

// failed returns a channel whose first value is the error from the first component to end.
func (c *cluster) failed() <-chan error {
	out := make(chan error, len(c.running))
	for _, r := range c.running {
		go func() {
			<-r.Done()
			out <- r.Err()
		}()
	}
	return out
}

func (c *cluster) readyLine() readyLine {
	return readyLine{
		Ready:      true,
		Kubeconfig: filepath.Join(c.options.dir, adminKubeconfig),
		Server:     c.id.cluster.Server,
		PodNet:     c.net.CIDR(),
		Proxy:      "http://" + c.net.ProxyAddr().String(),
		Dir:        c.options.dir,
		AuditLog:   c.options.auditLog,
		PID:        os.Getpid(),
	}
}

func (c *cluster) claimNetwork(context.Context) (err error) {
	c.net, c.api, err = network.Claim(c.options.dir)
	if err != nil {
		return err
	}
	c.sockets = c.options.dir
	if len(c.sockets) > maxSocketDir {
		c.ownSocks = true
		c.sockets, err = os.MkdirTemp("/tmp", "remit-")
	}
	return err
}

func (c *cluster) makeIdentities(context.Context) (err error) {
	c.id, err = newIdentities(filepath.Join(c.options.dir, "pki"), c.net)
	return err
}

func (c *cluster) startProxy(context.Context) error {
	socket := c.egressSocket()
	_ = os.Remove(socket) // may be left over from a crash; no other process uses the locked directory
	for _, where := range [][2]string{{"unix", socket}, {"tcp", c.net.ProxyAddr().String()}} {
		l, err := net.Listen(where[0], where[1])
		if err != nil {
			return err
		}
		c.closers = append(c.closers, l)
		resolver := &network.Resolver{Net: c.net, Listers: c.listers.Load}
		network.NewProxy(resolver.Dial).Serve(l)
	}
	return nil
}

func (c *cluster) egressSocket() string { return filepath.Join(c.sockets, "egress.sock") }

func (c *cluster) startEtcd(ctx context.Context) error {
	r, server, err := component.Etcd(ctx, c.options.dir, c.sockets)
	if err != nil {
		return err
	}
	c.running = append(c.running, r)
	c.id.etcdServer = server
	return nil
}

func (c *cluster) startAPIServer(ctx context.Context) error {
	o, err := c.apiServerOptions()
	if err != nil {
		return err
	}
	r, err := component.APIServer(ctx, o)
	if err != nil {
		return err
	}
	c.running = append(c.running, r)
	config, err := clientcmd.BuildConfigFromFlags("", c.id.nodeKubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no rate limit, because the node does the work of many clients
	config.UserAgent = "remit-node"
	if c.client, err = kubernetes.NewForConfig(rest.AddUserAgent(config, "remit-node")); err != nil {
		return err
	}
	return waitReady(ctx, c.client, r)
}

func (c *cluster) startInformers(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.client, 0)
	services := &network.Services{
		Services: factory.Core().V1().Services().Lister(),
		Slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
	factory.Start(ctx.Done())
	c.listers.Store(services)
	return nil
}

func (c *cluster) startControllers(ctx context.Context) error {
	manager, err := component.ControllerManager(ctx, component.ControllerManagerOptions{
		Kubeconfig:        c.id.managerKubeconfig,
		ServiceAccountKey: c.id.accountKey,
		RootCA:            c.id.ca.CertFile,
		Signing:           component.Pair{Cert: c.id.ca.CertFile, Key: c.id.ca.KeyFile},
	})
	if err != nil {
		return err
	}
	c.running = append(c.running, manager)
	scheduler, err := component.Scheduler(ctx, c.id.schedulerKubeconfig)
	if err != nil {
		return err
	}
	c.running = append(c.running, scheduler)
	return nil
}
