package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
	samplebundle "github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// Images in the manifests. For these images, the simulated node runs the programs built here.
	imageCatalog   = "remit.dev/catalog:dev"
	imageOLM       = "remit.dev/olm:dev"
	imageExtension = "remit.dev/extension:dev"
	imagePackages  = "remit.dev/package-server:dev"
	// bundlesCatalog is the image of the catalog that serves the bundles in the --bundles directory.
	bundlesCatalog = "remit.dev/demo-catalog:dev"
	catalogName    = "demo"
	// pollInterval is how often the demonstration polls. The controllers do not poll.
	pollInterval = 50 * time.Millisecond
	// blockedFor is how long an install must stay blocked before the demonstration stops waiting for it. A shorter block
	// may only mean that the controllers have not observed a grant yet.
	blockedFor = 3 * time.Second
)

// demo is a running demonstration.
type demo struct {
	Options
	progress *progress
	programs programs
	cluster  *controlplane.Instance
	client   client.Client
	// docs serves the catalogs that the examples in the documentation use.
	docs *documentation
}

// start starts the control plane, installs Remit, and creates a CatalogSource for the bundles in the given directory or,
// if bundles is "", for the documentation's catalog.
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
	err = d.progress.step("Install Remit: CRDs, its own bounded permissions, its four programs as Pods", func() error { return d.starting().installRemit(ctx, args) })
	if err != nil {
		return err
	}
	return d.progress.step("Serve the catalogs", func() error {
		if err := d.starting().serve(ctx, image); err != nil {
			return err
		}
		return d.starting().serveCluster(ctx)
	})
}

// starting returns the demo with a Timeout that is at least the default: users choose how long to wait for their bundles, but not how long
// their machine takes to start Remit.
func (d *demo) starting() *demo {
	out := *d
	out.Timeout = max(d.Timeout, defaultTimeout)
	return &out
}

// installRemit installs Remit with ClusterExtensions and PackageManifests. args are additional flags for the catalog program.
func (d *demo) installRemit(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	objs, err := manifests.RenderWithExtensions(manifests.ProfileBounded)
	if err != nil {
		return err
	}
	packages, err := manifests.RenderPackages()
	if err != nil {
		return err
	}
	objs = append(objs, packages...)
	const listen = "--health-probe-bind-address=" + controlplane.ListenIP
	const content = "--catalog-content-bind-address=" + controlplane.ListenIP
	err = manifests.Apply(ctx, d.client, objs,
		manifests.Args{Deployment: names.ServiceAccountCatalog, Args: append([]string{listen + ":9441"}, args...)},
		manifests.Args{Deployment: names.ServiceAccountOLM, Args: []string{listen + ":9442"}},
		manifests.Args{Deployment: names.ServiceAccountPackageServer, Args: []string{"--bind-address=" + controlplane.ListenIP + ":5443"}},
		manifests.Args{Deployment: names.ServiceAccountExtension, Args: append([]string{listen + ":9443", content + ":8443"}, d.docs.registryArgs()...)},
	)
	if err != nil {
		return err
	}
	return manifests.ApplyDefaults(ctx, d.client, manifests.ProfileBounded)
}

// launch starts the control plane with a node that runs the programs built here.
func (d *demo) launch(ctx context.Context) error {
	err := d.progress.step("Start etcd, kube-apiserver, kube-controller-manager, kube-scheduler and a node", func() error {
		var err error
		d.cluster, err = controlplane.Launch(ctx, controlplane.Options{
			Binary: d.programs.path(programControlPlane),
			Dir:    d.Dir,
			Images: map[string]string{
				imageCatalog:               d.programs.path(programCatalog),
				imageOLM:                   d.programs.path(programOLM),
				imageExtension:             d.programs.path(programExtension),
				imagePackages:              d.programs.path(programPackages),
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

// serve creates the cluster's only CatalogSource, in the global catalog namespace, and waits for its content.
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

// serveCluster creates the cluster's only ClusterCatalog, and waits for its content.
func (d *demo) serveCluster(ctx context.Context) error {
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: catalogName}}
	catalog.Spec.Source = olmv1.ClusterCatalogSource{
		Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: docsRegistry + "/" + helloImage},
	}
	if err := d.client.Create(ctx, catalog); err != nil {
		return err
	}
	return d.until(ctx, func(ctx context.Context) error {
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) {
			return fmt.Errorf("ClusterCatalog %s is not served: %s", catalogName, messageOf(catalog.Status.Conditions, olmv1.TypeProgressing))
		}
		return nil
	})
}

func messageOf(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Message
	}
	return "it has no status yet"
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

// blockedError reports a state that changes only if the user intervenes.
type blockedError struct{ error }

func (e blockedError) Unwrap() error { return e.error }

// until polls until check returns nil. On a timeout, it returns the last error of check. If check keeps returning a
// blockedError for the duration blockedFor, until returns that error before the timeout.
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
		return fmt.Errorf("timed out after %s: %w", d.Timeout, last)
	}
	return err
}
