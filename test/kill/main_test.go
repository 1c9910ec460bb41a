package kill

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

var (
	// cluster is a control plane without Remit's Pods. All sweeps use it sequentially.
	cluster *env.Cluster
	// catalogs maps images to the directories of their catalogs. Each install of a sweep of the catalog program has its own
	// catalog.
	catalogs = map[string]string{}
	// sweeps lists the sweeps of the catalog program, one for each test. Their names are part of the names of their catalog
	// images.
	sweeps = []string{"steps", "writes"}
)

func TestMain(m *testing.M) { os.Exit(env.Suite{Cluster: &cluster, Options: options}.Run(m)) }

func options(dir string) (env.Options, error) {
	for _, sweep := range sweeps {
		if err := writeCatalogs(dir, sweep); err != nil {
			return env.Options{}, err
		}
	}
	return env.Options{
		Extensions: true, Without: []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension},
	}, nil
}

func image(sweep string, n int) string { return fmt.Sprintf("catalogs.test/%s-%d", sweep, n) }

// writeCatalogs creates a variant of the sample for each install of a sweep. Each variant has its own
// CustomResourceDefinition, because deleting and immediately recreating one causes a race in the API server.
func writeCatalogs(dir, sweep string) error {
	for n := 1; n <= maxWrites; n++ {
		v, err := env.NewVariant()
		if err != nil {
			return err
		}
		v.SetGroup(fmt.Sprintf("%s-%d.remit.dev", sweep, n))
		catalog := filepath.Join(dir, fmt.Sprintf("%s-%d", sweep, n))
		if err := v.Write(catalog); err != nil {
			return err
		}
		catalogs[image(sweep, n)] = catalog
	}
	return nil
}
