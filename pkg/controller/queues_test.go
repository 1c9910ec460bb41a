package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryControllerHasAFairQueue checks the source code of the controllers. Without fairqueue.Options, one namespace
// could use all of a controller's workers.
func TestEveryControllerHasAFairQueue(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		made := strings.Count(string(text), "NewControllerManagedBy(") + strings.Count(string(text), "controller.New(")
		found += made
		require.Equal(t, made, strings.Count(string(text), "WithOptions(fairqueue.Options(mgr, "), file)
	}
	require.Equal(t, 12, found)
}

// Controllers that read registries wait for turns, which must not make a namespace slow.
func TestControllersThatReadRegistriesMeasureTheirWaits(t *testing.T) {
	for _, file := range []string{"installplan/wake.go", "packagemanifest/reconciler.go", "subscription/setup.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), ", waits)).\n\t\tComplete(waits.Measure(r))", file)
	}
}
