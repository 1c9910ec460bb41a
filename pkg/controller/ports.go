package controller

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/remit-olm/remit/pkg/lib/listen"
)

const (
	// maxScrapes bounds the number of concurrent responses with metrics, each of which is rendered in memory.
	maxScrapes = 2
	// portEnd is how long responses can continue after the program is told to stop.
	portEnd = 2 * time.Second
)

// servePorts opens the ports for probes and metrics. The servers of controller-runtime are not used, because they accept
// any number of connections and headers of up to 1 MiB from everyone (docs/adr/0067).
func servePorts(mgr ctrl.Manager, o ManagerOptions) error {
	health := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		check := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}})
		health.Handle(path, check)
		health.Handle(path+"/", check)
	}
	all := http.NewServeMux()
	all.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes}))
	if err := servePort(mgr, "health", o.HealthAddress, health); err != nil {
		return err
	}
	return servePort(mgr, "metrics", o.MetricsAddress, all)
}

// servePort opens a port, unless its address is empty or "0", and serves it while the manager runs, also without being the
// leader.
func servePort(mgr ctrl.Manager, name, address string, handler http.Handler) error {
	if address == "" || address == "0" {
		return nil
	}
	listener, err := listen.TCP(context.Background(), address, listen.Unauthenticated())
	if err != nil {
		return fmt.Errorf("%s port: %w", name, err)
	}
	return mgr.Add(&manager.Server{
		Name: name, Server: listen.Server(mgr.GetLogger(), name, handler), Listener: listener, ShutdownTimeout: ptr.To(portEnd),
	})
}
