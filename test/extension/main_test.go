package extension

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package. Each test uses its own names.
var cluster *env.Cluster

// images is a registry that the cluster may access without TLS.
var images *registry.Server

// private is another registry, which requires a password.
var private *registry.Server

func TestMain(m *testing.M) {
	images, private = registry.Start(), registry.Start()
	code := env.Suite{Cluster: &cluster, Options: options, Parallel: "6"}.Run(m)
	images.Close()
	private.Close()
	os.Exit(code)
}

func options(string) (env.Options, error) {
	return env.Options{Extensions: true, ExtensionArgs: []string{
		"--registry-plain-http=" + images.Host, "--registry-plain-http=" + private.Host, "--registry-credentials=" + pullSecretFile,
	}}, nil
}

// eventually asserts that a condition becomes true.
func eventually(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	env.Eventually(t, check)
}
