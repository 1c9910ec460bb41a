package env

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferenceNamesWhatWasAddedAndRemoved(t *testing.T) {
	t.Parallel()
	before, after := Census{"pods/a": true, "pods/b": true}, Census{"pods/b": true, "pods/c": true, "pods/d": true}
	require.Equal(t, []string{"+pods/c", "-pods/a"}, before.Difference(after, func(s string) bool { return s == "pods/d" }))
	require.Equal(t, []string{"+pods/c", "+pods/d", "-pods/a"}, before.Difference(after, nil))
}
