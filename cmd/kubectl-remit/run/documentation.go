package run

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing/fstest"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/registry"
	samplebundle "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// Names that the documentation's examples use. The demonstration provides images and a registry with these names.
const (
	// docsCatalog is a catalog with the sample operator. It is served from a directory.
	docsCatalog = "example.com/catalogs/sample:v1"
	// docsRegistry is a registry with an image of the same catalog, docsImage.
	docsRegistry = "docs-registry.example.com"
	docsImage    = "catalogs/sample:v1"
	// helloImage is an image in docsRegistry. It contains a catalog with an operator for ClusterExtensions.
	helloImage = "catalogs/hello:v1"
	// docsServer is an image whose Pods serve the same catalog over gRPC, as `opm serve` does.
	docsServer = "example.com/registries/sample:v1"
)

// documentation serves the catalogs that the documentation's examples use, from a directory and from a registry in this
// process.
type documentation struct {
	dir      string
	registry *registry.Server
}

func newDocumentation(ctx context.Context, programs programs) (_ *documentation, err error) {
	d := &documentation{}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.dir, err = os.MkdirTemp("", "remit-docs-"); err != nil {
		return nil, err
	}
	catalog, err := catalogOf(ctx, samplebundle.FS())
	if err != nil {
		return nil, fmt.Errorf("render the sample catalog: %w", err)
	}
	configs := filepath.Join(filepath.Dir(d.server()), "configs")
	if err := errors.Join(
		os.CopyFS(d.catalog(), samplebundle.FS()),
		os.MkdirAll(configs, 0o700),
		os.WriteFile(filepath.Join(configs, "catalog.json"), catalog, 0o600),
		os.Symlink(programs.path(programRegistry), d.server()),
	); err != nil {
		return nil, fmt.Errorf("write the sample catalog: %w", err)
	}
	d.registry = registry.Start()
	if err := d.push(docsImage, catalog); err != nil {
		return nil, err
	}
	hello, err := catalogOf(ctx, helloBundles)
	if err != nil {
		return nil, fmt.Errorf("render the catalog for ClusterExtensions: %w", err)
	}
	return d, d.push(helloImage, hello)
}

// helloBundles contains two versions of an operator without CustomResourceDefinitions, so that several ClusterExtensions can
// install it.
//
//go:embed hello
var helloBundles embed.FS

// push pushes an image of a file-based catalog.
func (d *documentation) push(named string, catalog []byte) error {
	image, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: catalog}})
	if err == nil {
		_, _, err = d.registry.Push(named, image)
	}
	if err != nil {
		return fmt.Errorf("push image %s: %w", named, err)
	}
	return nil
}

// catalogOf returns a file-based catalog with the bundles.
func catalogOf(ctx context.Context, bundles fs.FS) ([]byte, error) {
	config, err := fbc.FromBundles(ctx, bundles)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = declcfg.WriteJSON(*config, &out)
	return out.Bytes(), err
}

// catalog returns the directory of docsCatalog.
func (d *documentation) catalog() string { return filepath.Join(d.dir, "catalog") }

// server returns the path of docsServer's executable, which serves the directory "configs" next to it.
func (d *documentation) server() string { return filepath.Join(d.dir, "registry", "registry") }

// args returns the catalog program's flags for docsCatalog and docsRegistry.
func (d *documentation) args() []string {
	return append([]string{"--catalog-directory=" + docsCatalog + "=" + d.catalog()}, d.registryArgs()...)
}

// registryArgs returns the flags with which programs read images from docsRegistry.
func (d *documentation) registryArgs() []string {
	return []string{"--registry-mirror=" + docsRegistry + "=" + d.registry.Host, "--registry-plain-http=" + d.registry.Host}
}

func (d *documentation) close() {
	if d.registry != nil {
		d.registry.Close()
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}

// follow prints how to set up a terminal for the examples in the documentation.
func (d *demo) follow() {
	bin := string(d.programs)
	d.progress.say("\nTo run the examples in the documentation (docs/README.md) on this cluster, run in another terminal:")
	d.progress.say("  cd %q && export KUBECONFIG=%q PATH=\"%s:$PATH\"", filepath.Dir(bin), d.cluster.Kubeconfig, bin)
	if _, err := exec.LookPath("kubectl"); err != nil {
		if _, err := os.Stat(d.programs.path("kubectl")); err != nil {
			d.progress.say("\nThe examples need kubectl, which is not in your PATH. To build it: make kubectl")
		}
	}
}
