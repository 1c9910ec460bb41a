package layer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

func TestLimitsWhatTheLayersContainUnpacked(t *testing.T) {
	s := registry.New(t)
	from := open(t, s, nil, layer(t, "configs/a="+strings.Repeat("a", 5000)), layer(t, "configs/b=b"))
	err := Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), MaxUnpacked: 5000})
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, "larger than 5000 bytes unpacked")
}

// Whether an upper layer hides a name takes time for each of its directories.
func TestLimitsTheDepthOfHiddenFiles(t *testing.T) {
	e := extractionIn(t, t.TempDir())
	e.hidden = map[string]bool{"configs/d": true}
	require.NoError(t, enter(e, "configs/"+strings.Repeat("d/", MaxDepth)+"f"))
	require.ErrorContains(t, enter(e, "configs/"+strings.Repeat("d/", MaxDepth+1)+"f"), "in 65 directories below catalog directory")
}
