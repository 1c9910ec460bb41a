package replicas

import (
	"os"
	"testing"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// cluster is a control plane without Remit's Pods.
var cluster *env.Cluster

// programs are the ServiceAccounts of the programs that elect a leader.
var programs = []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension}

func TestMain(m *testing.M) {
	os.Exit(env.Suite{Cluster: &cluster, Options: func(string) (env.Options, error) {
		return env.Options{Extensions: true, Without: programs}, nil
	}}.Run(m))
}
