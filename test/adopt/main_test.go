package adopt

import (
	"os"
	"testing"
	"time"

	"github.com/remit-olm/remit/test/env"
)

// cluster is shared by all tests. Each test has its own namespaces.
var cluster *env.Cluster

func TestMain(m *testing.M) {
	os.Exit(env.Suite{Cluster: &cluster, Options: func(string) (env.Options, error) { return env.Options{}, nil }}.Run(m))
}

const (
	patience = env.Patience
	tick     = 50 * time.Millisecond
)
