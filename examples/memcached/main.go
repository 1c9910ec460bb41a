// Command memcached is an example operator that uses pkg/lib/scopedcache.
//
// It reconciles Memcached resources in all namespaces, but is allowed to manage Deployments and read Pods only in
// some of them. A Memcached in another namespace reports which permission is missing, and is reconciled when that
// permission is granted. `make example-memcached` runs the operator and shows this step by step.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/remit-olm/remit/examples/memcached/api"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return err
	}
	var scoped *scopedcache.Cache
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		// Memcached resources are watched cluster-wide. Other resources are watched only where a reconcile reads them.
		NewCache: scopedcache.Builder(scopedcache.Options{Primary: []client.Object{&api.Memcached{}}}, &scoped),
	})
	if err != nil {
		return err
	}
	r := &reconciler{Client: mgr.GetClient(), cache: scoped}
	if err := r.setUp(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
