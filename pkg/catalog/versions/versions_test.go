package versions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLongTextIsNotParsed(t *testing.T) {
	long := "1.0.0-" + strings.Repeat("a.", 200) + "a"
	_, err := Parse(long)
	require.EqualError(t, err, "the version has 407 bytes; at most 256 are allowed")
	_, err = ParseTolerant("v" + long)
	require.ErrorContains(t, err, "at most 256 are allowed")
	_, err = ParseRange(strings.Repeat("1.x ", 2000))
	require.EqualError(t, err, "the version range has 8000 bytes; at most 4096 are allowed")

	v, err := ParseTolerant("v1.2")
	require.NoError(t, err)
	within, err := ParseRange(strings.Repeat("1.x ", 1000) + "1.x")
	require.NoError(t, err)
	require.True(t, within(v))
	v, err = Parse("2.0.0")
	require.NoError(t, err)
	require.False(t, within(v))
}
