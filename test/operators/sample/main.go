// Command sample is the sample operator: a small but real controller that the demo and the e2e tests install from its
// bundle (./bundle). It watches Greetings in the namespaces that the environment variable WATCH_NAMESPACE lists, or in
// all namespaces if the variable is empty. Its Deployment sets the variable from the annotation olm.targetNamespaces.
//
// The second version (./bundlev2) also has webhooks, a conversion and an API: the environment variable SERVE selects
// what a process serves.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/remit-olm/remit/pkg/lib/logging"
	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
	"github.com/remit-olm/remit/test/operators/sample/echo"
	"github.com/remit-olm/remit/test/operators/sample/greeter"
	"github.com/remit-olm/remit/test/operators/sample/hooks"
)

func main() {
	logging.Setup(false)
	if err := run(optionsFromEnv(os.Getenv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(opts options) error {
	mgr, err := newManager(opts)
	if err != nil {
		return err
	}
	if opts.serve != "" {
		if err := serve(mgr, opts); err != nil {
			return fmt.Errorf("serve %s: %w", opts.serve, err)
		}
	}
	if opts.serve == "" || opts.serve == serveHooks {
		if err := greet(mgr, opts); err != nil {
			return fmt.Errorf("set up the controller: %w", err)
		}
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func greet(mgr ctrl.Manager, opts options) error {
	reconciler, err := greeter.New(greeter.Options{
		Client:         mgr.GetClient(),
		Recorder:       mgr.GetEventRecorder("sample-operator"),
		DefaultMessage: opts.defaultMessage,
	})
	if err != nil {
		return err
	}
	return reconciler.SetupWithManager(mgr)
}

// serve adds the servers that the API server calls. The Pod is ready once they are listening.
func serve(mgr ctrl.Manager, opts options) error {
	server := hooks.Server{
		Address:     net.JoinHostPort(opts.listenIP, hooksPort),
		Certificate: filepath.Join(opts.root, hooksCertificates, "tls.crt"),
		Key:         filepath.Join(opts.root, hooksCertificates, "tls.key"),
		Handler:     hooks.Handler(opts.hooksPrefix),
	}
	if opts.serve == serveAPI {
		server = hooks.Server{
			Address:            net.JoinHostPort(opts.listenIP, apiPort),
			Certificate:        filepath.Join(opts.root, apiCertificates, "apiserver.crt"),
			Key:                filepath.Join(opts.root, apiCertificates, "apiserver.key"),
			Handler:            (&echo.Server{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}).Handler(),
			ClientCertificates: true,
		}
	}
	if err := mgr.AddReadyzCheck("serving", server.Check); err != nil {
		return err
	}
	return mgr.Add(server)
}

func newManager(opts options) (ctrl.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("load the client configuration: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, samplev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{DefaultNamespaces: opts.namespaces},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: opts.healthAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{
		"healthz": mgr.AddHealthzCheck,
		"readyz":  mgr.AddReadyzCheck,
	} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("serve %s: %w", name, err)
		}
	}
	return mgr, nil
}
