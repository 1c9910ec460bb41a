package flow

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunEndsAtTheFirstPhaseThatDoesNotContinue(t *testing.T) {
	failure := errors.New("no")
	ends := func(out Outcome, err error) Step[*[]string] {
		return func(_ context.Context, ran *[]string) (Outcome, error) {
			*ran = append(*ran, out.Reason)
			return out, err
		}
	}
	goesOn := ends(Next(), nil)
	for _, row := range []struct {
		name  string
		steps []Step[*[]string]
		want  Outcome
		err   error
		ran   int
	}{
		{"no phases", nil, Next(), nil, 0},
		{"all continue", []Step[*[]string]{goesOn, goesOn}, Next(), nil, 2},
		{"one is done", []Step[*[]string]{goesOn, ends(Done(), nil), goesOn}, Done(), nil, 2},
		{"one waits", []Step[*[]string]{ends(Wait("R", "m"), nil), goesOn}, Wait("R", "m"), nil, 1},
		{"one fails", []Step[*[]string]{goesOn, ends(Next(), failure), goesOn}, Next(), failure, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			var ran []string
			out, err := Run(t.Context(), &ran, row.steps...)
			require.Equal(t, row.want, out)
			require.Equal(t, row.err, err)
			require.Len(t, ran, row.ran)
		})
	}
}

func TestOutcomes(t *testing.T) {
	require.True(t, Outcome{}.Proceed())
	require.True(t, Next().Proceed())
	require.False(t, Done().Proceed())
	require.False(t, Wait("R", "m").Proceed())
	require.Equal(t, "R", Wait("R", "m").Reason)
	require.Equal(t, "m", Wait("R", "m").Message)
}
