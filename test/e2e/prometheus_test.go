package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/corpus"
)

const (
	prometheusPackage = "prometheus"
	prometheusDir     = "bundles/prometheus/0.56.3"
	prometheusCSV     = "prometheusoperator.0.56.3"
)

func TestInstallsThePrometheusOperatorWithMinimalPermissions(t *testing.T) {
	bounded(t)
	t.Parallel()
	dir := corpus.Dir(t, prometheusDir)
	b, err := env.ReadBundle(os.DirFS(dir))
	require.NoError(t, err)
	tn := cluster.Tenant(t)
	tn.GrantAll(tn.Needs(b, prometheusPackage, tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(catalogPrometheus))
	tn.Subscribe("catalog", prometheusPackage, "")

	tn.Complete()
	tn.Succeeded(prometheusCSV)
}
