package existing

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The memory limit of a container applies to its program and the process that validates objects together.
func TestTheProcessFitsBesideItsProgram(t *testing.T) {
	for _, file := range []string{"base/catalog-deployment.yaml", "extensions/deployment.yaml"} {
		text, err := os.ReadFile("../../../manifests/" + file)
		require.NoError(t, err)
		mebibytes := func(pattern string) int64 {
			found := regexp.MustCompile(pattern).FindSubmatch(text)
			require.NotNil(t, found, "%s: %s", file, pattern)
			n, err := strconv.ParseInt(string(found[1]), 10, 64)
			require.NoError(t, err)
			return n << 20
		}
		program, limit := mebibytes(`GOMEMLIMIT\n\s+value: (\d+)MiB\n`), mebibytes(`limits:\n\s+memory: (\d+)Mi\n`)
		require.Less(t, program+MaxMemory, limit, file)
		require.Greater(t, program, limit*6/10, "%s: %s", file, "what a program may use when it is attacked leaves room for garbage")
	}
}
