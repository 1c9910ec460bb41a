package hooks

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
)

// cluster is shared by the tests that use only ConfigMaps. Tests with Greetings start their own clusters with ownCluster,
// because a cluster has only one CustomResourceDefinition for Greetings.
var cluster *env.Cluster

// catalogBoth is the catalog with both versions of the sample, and catalogHooks is the catalog of an operator that has
// only webhooks.
const (
	catalogBoth  = "both"
	catalogHooks = "hooks"
)

func image(catalog string) string { return "catalogs.test/" + catalog }

// All clusters run at the same time, because the slowest tests mostly wait: for certificates to expire and for Pods to start.
func TestMain(m *testing.M) {
	os.Exit(env.Suite{Cluster: &cluster, Options: options, Parallel: "3"}.Run(m))
}

func options(dir string) (env.Options, error) {
	catalogs := map[string]string{}
	for name, write := range map[string]func(string) error{catalogBoth: writeBoth, catalogHooks: writeHooks} {
		catalogs[image(name)] = filepath.Join(dir, name)
		if err := write(catalogs[image(name)]); err != nil {
			return env.Options{}, err
		}
	}
	return env.Options{Catalogs: catalogs}, nil
}

func writeBoth(dir string) error {
	for name, files := range map[string]fs.FS{"v1": bundle.FS(), "v2": bundlev2.FS()} {
		if err := os.CopyFS(filepath.Join(dir, name), files); err != nil {
			return err
		}
	}
	return nil
}

// writeHooks writes to dir a bundle of the operator that newOperator returns.
func writeHooks(dir string) error {
	v, err := env.NewVariant()
	if err != nil {
		return err
	}
	c := operator(1)
	v.Set(nil, "spec", "customresourcedefinitions")
	content, err := toMap(c)
	if err != nil {
		return err
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("the CSV has no spec: %v", content)
	}
	for _, field := range []string{"install", "webhookdefinitions", "installModes"} {
		v.Set(spec[field], "spec", field)
	}
	if err := v.Write(dir); err != nil {
		return err
	}
	for _, file := range []string{env.FileCRD, env.FileConfigMap, env.FileService} {
		if err := os.Remove(filepath.Join(dir, "manifests", file)); err != nil {
			return err
		}
	}
	return nil
}
