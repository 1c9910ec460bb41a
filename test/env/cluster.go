package env

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
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
	Client client.WithWatch
	// Bin holds the programs.
	Bin string
	// Home is the namespace of Remit, Catalogs that of the global catalogs.
	Home, Catalogs string
}

// Options of Start.
type Options struct {
	// Profile of manifests; the default is bounded.
	Profile string
	// Render makes the objects to install in place of the profile's.
	Render func() ([]*unstructured.Unstructured, error)
	// Namespace is where those install Remit; the default is names.DefaultNamespace. CatalogNamespace is that of the global
	// catalogs; the default is names.DefaultCatalogNamespace.
	Namespace, CatalogNamespace string
	// Catalogs maps images to directories for the catalog program.
	Catalogs map[string]string
	// CatalogArgs are more flags for the catalog program.
	CatalogArgs []string
	// Without leaves out some of Remit's programs (names.ServiceAccountCatalog, -OLM): their Deployments
	// are there, and their Pods do nothing.
	Without []string
	// Args are more flags for the programs.
	Args []manifests.Args
	// Authorizer is the URL of a webhook that is asked to authorize what RBAC does not allow; "" is none.
	Authorizer string
}

// Start brings up a control plane and installs Remit. The caller stops it. Its state and logs stay in
// a folder of the directory that the environment variable E2E_DIR names, if any, to be looked at.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	images := map[string]string{
		bundle.OperatorImage:   filepath.Join(bin, "sample-operator"),
		bundlev2.OperatorImage: filepath.Join(bin, "sample-operator"),
	}
	if !slices.Contains(o.Without, names.ServiceAccountCatalog) {
		images[imageCatalog] = filepath.Join(bin, "catalog")
	}
	if !slices.Contains(o.Without, names.ServiceAccountOLM) {
		images[imageOLM] = filepath.Join(bin, "olm")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := keptDir()
	if err != nil {
		return nil, err
	}
	instance, err := controlplane.Launch(ctx, controlplane.Options{Images: images, Dir: dir, Authorizer: o.Authorizer})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Instance: instance, Bin: bin, Home: cmp.Or(o.Namespace, names.DefaultNamespace), Catalogs: cmp.Or(o.CatalogNamespace, names.DefaultCatalogNamespace)}
	if err := c.install(ctx, o); err != nil {
		_ = instance.Stop()
		return nil, err
	}
	return c, nil
}

// keptDir is a new folder of E2E_DIR; "" where that is not set.
func keptDir() (string, error) {
	parent := os.Getenv("E2E_DIR")
	if parent == "" {
		return "", nil
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "")
}

func (c *Cluster) install(ctx context.Context, o Options) error {
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	if c.Client, err = client.NewWithWatch(c.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if o.Render == nil {
		o.Render = func() ([]*unstructured.Unstructured, error) {
			return manifests.Render(cmp.Or(o.Profile, manifests.ProfileBounded))
		}
	}
	objs, err := o.Render()
	if err != nil {
		return err
	}
	catalog := manifests.Args{Deployment: names.ServiceAccountCatalog, Args: append(listen(9441), o.CatalogArgs...)}
	for image, dir := range o.Catalogs {
		catalog.Args = append(catalog.Args, "--catalog-directory="+image+"="+dir)
	}
	olm := manifests.Args{Deployment: names.ServiceAccountOLM, Args: listen(9442)}
	return manifests.Apply(ctx, c.Client, objs, append([]manifests.Args{catalog, olm}, o.Args...)...)
}

// listen overrides the manifests' flags: a program listens at its Pod's address only, also for what it
// counts.
func listen(port int) []string {
	return []string{
		fmt.Sprintf("--health-probe-bind-address=%s:%d", controlplane.ListenIP, port),
		fmt.Sprintf("--metrics-bind-address=%s:%d", controlplane.ListenIP, metricsPort),
	}
}

// binaries is the folder that the environment variable REMIT_BIN names, or the repository's bin folder,
// which `make build` fills.
func binaries() (string, error) {
	if given := os.Getenv("REMIT_BIN"); given != "" {
		return given, nil
	}
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
