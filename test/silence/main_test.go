package silence

import (
	"os"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/blockage"
)

var cluster *env.Cluster

func TestMain(m *testing.M) { os.Exit(env.Suite{Cluster: &cluster, Options: options}.Run(m)) }

func options(dir string) (env.Options, error) {
	catalogs, err := blockage.WriteCatalogs(dir)
	return env.Options{Catalogs: catalogs}, err
}
