package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/catalog/web"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/logging"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/version"
	"github.com/remit-olm/remit/pkg/packages/server"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// serve serves the API until the context is done. Before that, it checks the admission policies and waits for its
// certificate.
func (o *options) serve(ctx context.Context) error {
	log := logging.Setup(o.debug)
	config, err := controller.LoadConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = version.UserAgent(names.UserAgentPackageServer)
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	self := program.Program{Name: "package-server", UserAgent: names.UserAgentPackageServer, Packages: true}
	if err := self.CheckPolicies(starting, c, program.Common{Namespace: o.namespace, CatalogNamespace: o.globalNamespace}); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	serving := &server.Certificate{}
	certificates := &web.Certificates{Hosts: []string{names.ServicePackageServer + "." + o.namespace + ".svc"}, Publish: publish(c), Use: serving.Set}
	ctx, stop := context.WithCancel(logr.NewContext(ctx, log))
	var rotation errgroup.Group
	rotation.Go(func() error { return certificates.Start(ctx) })
	defer func() {
		stop()
		_ = rotation.Wait() // Start returns an error only before the context is done
	}()
	<-serving.Issued()
	api, err := server.New(server.Options{
		Listener: listener, Certificate: serving, Delegate: server.Delegation(cmp.Or(o.kubeconfig, os.Getenv("KUBECONFIG")), version.WithUserAgent(config.UserAgent)),
		Writer: scoped.Username(o.namespace, names.ServiceAccountCatalog),
		Store:  store.New(store.Options{Directory: o.directory, GlobalNamespace: o.globalNamespace}),
	})
	if err != nil {
		return err
	}
	log.Info("Starting", "program", "package-server", "version", version.String(), "namespace", o.namespace)
	return api.Run(ctx)
}

// publish returns a function that writes the CAs of the certificate to the APIService.
func publish(c client.Client) func(context.Context, []byte) error {
	return func(ctx context.Context, bundle []byte) error {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": bundle}})
		if err != nil {
			return err
		}
		object := &apiregistrationv1.APIService{}
		object.Name = packagesv1.GroupVersion.Version + "." + packagesv1.GroupVersion.Group
		return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(names.FieldManager))
	}
}
