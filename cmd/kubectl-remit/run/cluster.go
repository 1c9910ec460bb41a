package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
	samplebundle "github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// Images in the manifests, which the simulated node replaces with the programs built here.
	imageCatalog = "remit.dev/catalog:dev"
	imageOLM     = "remit.dev/olm:dev"
	// bundlesCatalog is the image of the catalog with the bundles of --bundles, which is served from their directory.
	bundlesCatalog = "remit.dev/demo-catalog:dev"
	catalogName    = "demo"
	// pollInterval is how often the demonstration polls. The controllers do not poll.
	pollInterval = 50 * time.Millisecond
	// blockedFor is how long an install is blocked before the demonstration stops waiting for it: the controllers may not
	// have observed a grant yet.
	blockedFor = 3 * time.Second
)

// demo is a running demonstration.
type demo struct {
	Options
	progress *progress
	programs programs
	cluster  *controlplane.Instance
	client   client.Client
	// docs serves what the examples in the documentation need.
	docs *documentation
}

// start starts the control plane and installs Remit. It serves the documentation's catalog and the bundles in a directory; "" means none.
func (d *demo) start(ctx context.Context, bundles string) error {
	var err error
	if d.docs, err = newDocumentation(ctx, d.programs); err != nil {
		return err
	}
	if err := d.launch(ctx); err != nil {
		return err
	}
	if d.WithCRDs {
		if err := d.thirdParties(ctx); err != nil {
			return err
		}
	}
	image, args := docsCatalog, d.docs.args()
	if bundles != "" {
		image, args = bundlesCatalog, append(args, "--catalog-directory="+bundlesCatalog+"="+bundles)
	}
	err = d.progress.step("Install Remit: CRDs, its own bounded permissions, catalog and olm as Pods", func() error {
		ctx, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		const listen = "--health-probe-bind-address=" + controlplane.ListenIP
		return manifests.Install(ctx, d.client, manifests.ProfileBounded,
			manifests.Args{Deployment: names.ServiceAccountCatalog, Args: append([]string{listen + ":9441"}, args...)},
			manifests.Args{Deployment: names.ServiceAccountOLM, Args: []string{listen + ":9442"}},
		)
	})
	if err != nil {
		return err
	}
	return d.progress.step("Serve the catalog", func() error { return d.serve(ctx, image) })
}

// launch starts the control plane, whose node runs the programs built here.
func (d *demo) launch(ctx context.Context) error {
	err := d.progress.step("Start etcd, kube-apiserver, kube-controller-manager, kube-scheduler and a node", func() error {
		var err error
		d.cluster, err = controlplane.Launch(ctx, controlplane.Options{
			Binary: d.programs.path(programControlPlane),
			Dir:    d.Dir,
			Images: map[string]string{
				imageCatalog:               d.programs.path(programCatalog),
				imageOLM:                   d.programs.path(programOLM),
				samplebundle.OperatorImage: d.programs.path(programSample),
				docsServer:                 d.docs.server(),
			},
		})
		return err
	})
	if err != nil {
		return err
	}
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	if d.client, err = client.New(d.cluster.Config(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// serve creates the only CatalogSource, in the global catalog namespace, and waits for its content.
func (d *demo) serve(ctx context.Context, image string) error {
	source := &operatorsv1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultCatalogNamespace, Name: catalogName},
		Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: image},
	}
	if err := d.client.Create(ctx, source); err != nil {
		return err
	}
	return d.until(ctx, func(ctx context.Context) error {
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if state := source.Status.GRPCConnectionState; state == nil || state.LastObservedState != "READY" {
			return fmt.Errorf("CatalogSource %s is not ready: %s", catalogName, source.Status.Message)
		}
		return nil
	})
}

func (d *demo) stop() {
	if d.docs != nil {
		defer d.docs.close()
	}
	if d.cluster == nil {
		return
	}
	_ = d.progress.step("Stop the cluster", d.cluster.Stop)
}

// blockedError reports a state that only changes if the user does something.
type blockedError struct{ error }

func (e blockedError) Unwrap() error { return e.error }

// until polls until check returns nil. On a timeout, it returns the last error of check. If check returns a blockedError
// for blockedFor, until returns it without waiting for the timeout.
func (d *demo) until(ctx context.Context, check func(context.Context) error) error {
	var last error
	var blocked time.Time
	err := wait.PollUntilContextTimeout(ctx, pollInterval, d.Timeout, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			last = err // an error caused by the timeout is ignored
		}
		switch {
		case !errors.As(err, new(blockedError)):
			blocked = time.Time{}
		case blocked.IsZero():
			blocked = time.Now()
		case time.Since(blocked) >= blockedFor:
			return false, err
		}
		return err == nil, nil
	})
	if errors.As(err, new(blockedError)) {
		return err
	}
	if err != nil && last != nil && ctx.Err() == nil {
		return fmt.Errorf("after %s: %w", d.Timeout, last)
	}
	return err
}
