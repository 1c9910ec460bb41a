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
	// imageCatalog and imageOLM are the images of the manifests.
	imageCatalog = "remit.dev/catalog:dev"
	imageOLM     = "remit.dev/olm:dev"
)

// Cluster is a test's own control plane with Remit installed.
type Cluster struct {
	*controlplane.Instance
	// Client is authenticated as the cluster's administrator.
	Client client.WithWatch
	// Bin is the directory with the programs.
	Bin string
	// Home is the namespace of Remit, Catalogs that of the global catalogs.
	Home, Catalogs string
}

// Options of Start.
type Options struct {
	// Profile of manifests; the default is bounded.
	Profile string
	// Render returns the objects to install instead of the profile's.
	Render func() ([]*unstructured.Unstructured, error)
	// Namespace is the namespace in which Remit is installed; the default is names.DefaultNamespace. CatalogNamespace
	// is that of the global catalogs; the default is names.DefaultCatalogNamespace.
	Namespace, CatalogNamespace string
	// Catalogs maps images to directories for the catalog program.
	Catalogs map[string]string
	// CatalogArgs are additional flags for the catalog program.
	CatalogArgs []string
	// Without lists programs of Remit (names.ServiceAccountCatalog, -OLM) to leave out: their Deployments exist, but
	// their Pods do nothing.
	Without []string
	// Args are additional flags for the programs.
	Args []manifests.Args
	// Authorizer is the URL of a webhook that authorizes requests which RBAC does not allow; "" is none.
	Authorizer string
}

// Start starts a control plane and installs Remit. The caller must stop it. For debugging, its state and logs are
// kept in a subdirectory of the directory in the environment variable E2E_DIR, if set.
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

// keptDir returns a new subdirectory of E2E_DIR, or "" if that is not set.
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

// listen overrides the flags of the manifests: a program must listen only on the address of its Pod, also for
// metrics.
func listen(port int) []string {
	return []string{
		fmt.Sprintf("--health-probe-bind-address=%s:%d", controlplane.ListenIP, port),
		fmt.Sprintf("--metrics-bind-address=%s:%d", controlplane.ListenIP, metricsPort),
	}
}

// binaries returns the directory in the environment variable REMIT_BIN, or the repository's bin directory, which
// `make build` fills.
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
