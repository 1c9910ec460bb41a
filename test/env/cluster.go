package env

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
)

const (
	// startTimeout is the timeout for starting the control plane and Remit, with a margin for busy machines.
	startTimeout = 3 * time.Minute
	// imageCatalog, imageOLM and imageExtension are the images in the manifests.
	imageCatalog   = "remit.dev/catalog:dev"
	imageOLM       = "remit.dev/olm:dev"
	imageExtension = "remit.dev/extension:dev"
	imagePackages  = "remit.dev/package-server:dev"
)

// Cluster is a private control plane with Remit installed.
type Cluster struct {
	*controlplane.Instance
	// Client is authenticated as the cluster administrator.
	Client client.WithWatch
	// Bin is the directory with Remit's programs.
	Bin string
	// Profile is the profile of the manifests.
	Profile string
	// Home is the namespace of Remit, and Catalogs is the namespace of the global catalogs.
	Home, Catalogs string
}

// Options are the options of Start.
type Options struct {
	// Profile is the profile of the manifests; the default is bounded.
	Profile string
	// Extensions adds ClusterCatalogs and ClusterExtensions to the profile, and starts the program for them.
	Extensions bool
	// Packages adds the API of PackageManifests to the profile, and starts the program for it.
	Packages bool
	// Render returns the objects to install instead of those of the profile.
	Render func() ([]*unstructured.Unstructured, error)
	// Namespace is the namespace in which Remit is installed; the default is names.DefaultNamespace. CatalogNamespace is
	// the namespace of the global catalogs; the default is names.DefaultCatalogNamespace.
	Namespace, CatalogNamespace string
	// Catalogs maps images to directories. The catalog program serves the content of the directory for the image.
	Catalogs map[string]string
	// CatalogArgs are additional flags for the catalog program, and ExtensionArgs for the extension program.
	CatalogArgs, ExtensionArgs []string
	// Without lists the programs that must not run, by the names of their ServiceAccounts (such as
	// names.ServiceAccountCatalog). Their Deployments exist, but their Pods do nothing.
	Without []string
	// Args are additional flags for Remit's programs.
	Args []manifests.Args
	// Authorizer is the URL of a webhook that authorizes requests that RBAC does not allow; "" means none.
	Authorizer string
}

// Start starts a control plane and installs Remit. The caller must stop the cluster. If the environment variable
// E2E_DIR is set, the control plane's state and logs are kept in a subdirectory of that directory, for debugging.
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
	if o.Extensions && !slices.Contains(o.Without, names.ServiceAccountExtension) {
		images[imageExtension] = filepath.Join(bin, "extension")
	}
	if o.Packages {
		images[imagePackages] = filepath.Join(bin, "package-server")
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
	o.Profile = cmp.Or(o.Profile, manifests.ProfileBounded)
	c := &Cluster{Instance: instance, Bin: bin, Profile: o.Profile, Home: cmp.Or(o.Namespace, names.DefaultNamespace), Catalogs: cmp.Or(o.CatalogNamespace, names.DefaultCatalogNamespace)}
	if err := c.install(ctx, o); err != nil {
		_ = instance.Stop()
		return nil, err
	}
	return c, nil
}

// keptDir returns a new subdirectory of E2E_DIR, or "" if E2E_DIR is not set.
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
		render := manifests.Render
		if o.Extensions {
			render = manifests.RenderWithExtensions
		}
		o.Render = func() ([]*unstructured.Unstructured, error) {
			return render(o.Profile)
		}
	}
	objs, err := o.Render()
	if err != nil {
		return err
	}
	if o.Packages {
		more, err := manifests.RenderPackages()
		if err != nil {
			return err
		}
		objs = append(slices.Clone(objs), more...)
	}
	packages := manifests.Args{Deployment: names.ServiceAccountPackageServer, Args: []string{"--bind-address=" + controlplane.ListenIP + ":5443"}}
	catalog := manifests.Args{Deployment: names.ServiceAccountCatalog, Args: append(listen(names.ServiceAccountCatalog), o.CatalogArgs...)}
	for image, dir := range o.Catalogs {
		catalog.Args = append(catalog.Args, "--catalog-directory="+image+"="+dir)
	}
	olm := manifests.Args{Deployment: names.ServiceAccountOLM, Args: listen(names.ServiceAccountOLM)}
	extension := manifests.Args{Deployment: names.ServiceAccountExtension, Args: append(listen(names.ServiceAccountExtension), o.ExtensionArgs...)}
	extension.Args = append(extension.Args, "--catalog-content-bind-address="+controlplane.ListenIP+":8443")
	if err := manifests.Apply(ctx, c.Client, objs, append([]manifests.Args{catalog, olm, extension, packages}, o.Args...)...); err != nil {
		return err
	}
	if err := manifests.ApplyAnyAccount(ctx, c.Client, o.Profile); err != nil {
		return err
	}
	return c.awaitPolicies(ctx)
}

// awaitPolicies waits until the API server can resolve the kind of the parameters of Remit's admission policies, because it may
// look for new kinds only every 30 s and refuses all objects of authors until then.
func (c *Cluster) awaitPolicies(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "policies"}}
		err := c.Client.Create(ctx, cs, client.DryRunAll)
		return !preflight.IsPolicyNotReady(err), nil // other tests show the remaining errors
	})
}

// listen returns flags that override those in the manifests. A program must listen only on the address of its Pod,
// including for metrics.
func listen(account string) []string {
	return []string{
		fmt.Sprintf("--health-probe-bind-address=%s:%d", controlplane.ListenIP, healthPorts[account]),
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
			return "", fmt.Errorf("bin/catalog does not exist in any parent of the working directory: run make build")
		}
		dir = parent
	}
}
