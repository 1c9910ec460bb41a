package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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
	// probeWait is how long a readiness probe waits for the caches. It is shorter than the kubelet waits for the probe.
	probeWait = 500 * time.Millisecond
)

// servePorts opens the ports for probes and metrics. The servers of controller-runtime are not used, because they accept
// any number of connections and headers of up to 1 MiB from everyone (docs/adr/0067).
func servePorts(mgr ctrl.Manager, o ManagerOptions) error {
	health := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{
		"/healthz": {"ping": healthz.Ping}, // a restart would not help if a kind cannot be read
		"/readyz":  {"ping": healthz.Ping, "caches": cachesRead(mgr.GetCache())},
	} {
		check := http.StripPrefix(path, &healthz.Handler{Checks: checks})
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

// errReading means that a cache of a program has not been read yet.
var errReading = errors.New("the caches have not been read yet")

// cachesRead returns a check that fails until all informers of the cache have read their objects once.
func cachesRead(informers cache.Informers) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), probeWait)
		defer cancel()
		if !informers.WaitForCacheSync(ctx) {
			return errReading
		}
		return nil
	}
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
