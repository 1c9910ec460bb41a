package csv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOwnedAPINamesItsDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serves(w)
	w.settle()
	found := ""
	for _, r := range w.csv.Status.RequirementStatus {
		if r.Kind == "APIService" {
			found = string(r.Status)
		}
	}
	require.Equal(t, "DeploymentFound", found)
}
