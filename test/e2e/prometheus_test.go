package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
)

const (
	prometheusPackage = "prometheus"
	prometheusNewest  = "0.56.3"
	prometheusCSV     = "prometheusoperator.0.56.3"
)

// prometheusDir is the newest bundle in the corpus of real ones; CORPUS_DIR says where that is.
func prometheusDir() string {
	corpus := os.Getenv("CORPUS_DIR")
	if corpus == "" {
		corpus = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	dir, err := filepath.Abs(filepath.Join(corpus, "bundles", prometheusPackage, prometheusNewest))
	if err != nil {
		return corpus
	}
	return dir
}

func TestTheRealPrometheusOperatorInstallsWithJustWhatItNeeds(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(prometheusDir()); err != nil {
		t.Skipf("no corpus of real bundles (CORPUS_DIR): %v", err)
	}
	b, err := env.ReadBundle(os.DirFS(prometheusDir()))
	require.NoError(t, err)
	tn := cluster.Tenant(t)
	tn.GrantAll(tn.Needs(b, prometheusPackage, tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(catalogPrometheus))
	tn.Subscribe("catalog", prometheusPackage, "")

	tn.Complete()
	tn.Succeeded(prometheusCSV)
}
