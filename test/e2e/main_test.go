package e2e

import (
	"os"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package. Each test has its own namespace.
var cluster *env.Cluster

// images is a registry that the cluster may access without TLS.
var images *registry.Server

func TestMain(m *testing.M) {
	images = registry.Start()
	code := env.Suite{Cluster: &cluster, Options: options, Parallel: "6"}.Run(m)
	images.Close()
	os.Exit(code)
}

// options installs the profile that the environment variable PROFILE names; the default is bounded.
func options(dir string) (env.Options, error) {
	catalogs, err := writeCatalogs(dir)
	return env.Options{Profile: os.Getenv("PROFILE"), Catalogs: catalogs, CatalogArgs: []string{"--registry-plain-http=" + images.Host}}, err
}

// bounded skips a story about the account that an OperatorGroup names. In the profile compat, the stories' OperatorGroups name
// no account.
func bounded(t *testing.T) {
	t.Helper()
	if cluster.IsCompat() {
		t.Skip("about the permissions of the account that an OperatorGroup names; not for PROFILE=compat")
	}
}

// compat skips a story about the default account. The profile bounded does not have one.
func compat(t *testing.T) {
	t.Helper()
	if !cluster.IsCompat() {
		t.Skip("about the default account; only for PROFILE=compat")
	}
}
