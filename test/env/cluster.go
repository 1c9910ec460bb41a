package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// startTimeout covers the control plane and Remit on a busy machine.
	startTimeout = 3 * time.Minute
	// imageCatalog and imageOLM are those of the manifests.
	imageCatalog = "remit.dev/catalog:dev"
	imageOLM     = "remit.dev/olm:dev"
)

// Cluster is a control plane of the test's own, with Remit installed.
type Cluster struct {
	*controlplane.Instance
	// Client is the cluster's administrator.
	Client client.Client
}

// Options of Start.
type Options struct {
	// Profile of manifests; the default is bounded.
	Profile string
	// Catalogs maps images to directories for the catalog program.
	Catalogs map[string]string
	// Without leaves out one of Remit's programs (names.ServiceAccountCatalog or -OLM): its Deployment
	// is there, and its Pod does nothing.
	Without string
}

// Start brings up a control plane and installs Remit. The caller stops it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	images := map[string]string{bundle.OperatorImage: filepath.Join(bin, "sample-operator")}
	if o.Without != names.ServiceAccountCatalog {
		images[imageCatalog] = filepath.Join(bin, "catalog")
	}
	if o.Without != names.ServiceAccountOLM {
		images[imageOLM] = filepath.Join(bin, "olm")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	instance, err := controlplane.Launch(ctx, controlplane.Options{Images: images})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Instance: instance}
	if err := c.install(ctx, o); err != nil {
		_ = instance.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) install(ctx context.Context, o Options) error {
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	if c.Client, err = client.New(c.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	profile := o.Profile
	if profile == "" {
		profile = manifests.ProfileBounded
	}
	args := manifests.Args{Deployment: names.ServiceAccountCatalog}
	for image, dir := range o.Catalogs {
		args.Args = append(args.Args, "--catalog-directory="+image+"="+dir)
	}
	return manifests.Install(ctx, c.Client, profile, args)
}

// binaries is the repository's bin folder; `make build` fills it.
func binaries() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		bin := filepath.Join(dir, "bin")
		if _, err := os.Stat(filepath.Join(bin, "catalog")); err == nil {
			return bin, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no bin/catalog above the working directory: run make build")
		}
		dir = parent
	}
}
