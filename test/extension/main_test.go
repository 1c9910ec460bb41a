package extension

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package. Each test uses its own names.
var cluster *env.Cluster

// images is a registry that the cluster may access without TLS.
var images *registry.Server

// parallel is the number of tests that run concurrently. It does not depend on the number of cores, because the tests
// mostly wait.
const parallel = "6"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		return fail(err)
	}
	images = registry.Start()
	defer images.Close()
	var err error
	if cluster, err = env.Start(context.Background(), env.Options{
		Extensions: true, ExtensionArgs: []string{"--registry-plain-http=" + images.Host},
	}); err != nil {
		return fail(err)
	}
	return cluster.RunTests(m)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "extension:", err)
	return 1
}

// eventually asserts that a condition becomes true.
func eventually(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, env.Patience, 50*time.Millisecond)
}
