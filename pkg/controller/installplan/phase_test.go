package installplan

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunEndsAtTheFirstPhaseThatDoesNotContinue(t *testing.T) {
	failure := errors.New("no")
	ran := 0
	ends := func(out outcome, err error) phase {
		return func(context.Context, *run) (outcome, error) {
			ran++
			return out, err
		}
	}
	continues := ends(proceed(), nil)
	for _, row := range []struct {
		name   string
		phases []phase
		want   outcome
		err    error
		ran    int
	}{
		{"no phases", nil, proceed(), nil, 0},
		{"all continue", []phase{continues, continues}, proceed(), nil, 2},
		{"a phase ends the run", []phase{continues, ends(stop(), nil), continues}, stop(), nil, 2},
		{"a phase waits", []phase{ends(wait("R", "m"), nil), continues}, wait("R", "m"), nil, 1},
		{"a phase fails", []phase{continues, ends(proceed(), failure), continues}, proceed(), failure, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			ran = 0
			out, err := (&run{}).runPhases(t.Context(), row.phases...)
			require.Equal(t, row.want, out)
			require.Equal(t, row.err, err)
			require.Equal(t, row.ran, ran)
		})
	}
}
