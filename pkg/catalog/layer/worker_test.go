package layer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestLayersAreUnpackedInTurnsButReceivedWithoutOne(t *testing.T) {
	held, sent := 0, 0
	w := &worker{ctx: t.Context()}
	w.work = func(context.Context) (func(), error) { held++; return func() { held-- }, nil }
	w.Reader = readerFunc(func(p []byte) (int, error) {
		require.Zero(t, held, "the registry sends")
		if sent++; sent > 3 {
			return 0, io.EOF
		}
		return 1, nil
	})
	for range 3 {
		_, err := w.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, held, "the part is unpacked")
	}
	_, err := w.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, held)
}

func TestExtractTakesTurns(t *testing.T) {
	s := registry.New(t)
	from := open(t, s, nil, layer(t, "configs/a="+strings.Repeat("a", 5000)), layer(t, "configs/b=b"))
	held, most := 0, 0
	work := func(context.Context) (func(), error) {
		held++
		most = max(most, held)
		return func() { held-- }, nil
	}
	require.NoError(t, Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), Work: work}))
	require.Equal(t, 1, most)
	require.Zero(t, held)
	full := errors.New("full")
	err := Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), Work: func(context.Context) (func(), error) { return nil, full }})
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, image.ErrImage)
	err = Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), MaxUnpacked: 5000})
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
