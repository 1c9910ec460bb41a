package sat

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func v(id string, cs ...Constraint) Variable { return Variable{ID: ID{Name: id}, Constraints: cs} }
func must() Constraint                       { return Constraint{Kind: Mandatory, Note: "must"} }
func never() Constraint                      { return Constraint{Kind: Prohibited, Note: "never"} }
func needs(names ...string) Constraint {
	return Constraint{Kind: Dependency, IDs: ids(names...), Note: "needs"}
}
func atMostOne(names ...string) Constraint {
	return Constraint{Kind: AtMostOne, IDs: ids(names...), Note: "at most one"}
}

func ids(names ...string) (out []ID) {
	for _, name := range names {
		out = append(out, ID{Name: name})
	}
	return out
}

func TestPreferredSolution(t *testing.T) {
	for _, row := range []struct {
		name string
		p    Problem
		want []string
	}{
		{"nothing is mandatory", Problem{Variables: []Variable{v("a"), v("b")}}, nil},
		{"a mandatory variable", Problem{Variables: []Variable{v("a"), v("b", must())}}, []string{"b"}},
		{"the first candidate", Problem{Variables: []Variable{v("a", must(), needs("c", "b")), v("b"), v("c")}}, []string{"a", "c"}},
		{"the next candidate if the first is prohibited", Problem{Variables: []Variable{v("a", must(), needs("c", "b")), v("b"), v("c", never())}}, []string{"a", "b"}},
		{"the next candidate if an indirect dependency of the first clashes", Problem{Variables: []Variable{
			v("a", must(), needs("b", "c")), v("b", needs("d")), v("c"), v("d", needs("e")), v("e"),
		}, Global: []Constraint{atMostOne("a", "e")}}, []string{"a", "c"}},
		{"a taken candidate rather than the preferred one", Problem{Variables: []Variable{v("a", must(), needs("b")), v("b", needs("c", "a")), v("c")}}, []string{"a", "b"}},
		{"a cycle", Problem{Variables: []Variable{v("a", must(), needs("b")), v("b", needs("a"))}}, []string{"a", "b"}},
		{"preferences of the first variable over those of the second", Problem{
			Variables: []Variable{v("a", must(), needs("x", "y")), v("b", must(), needs("y", "x")), v("x"), v("y")},
			Global:    []Constraint{atMostOne("x", "y")},
		}, []string{"a", "b", "x"}},
		{"one of three", Problem{
			Variables: []Variable{v("a", must(), needs("x", "y", "z")), v("b", must(), needs("z", "y")), v("x"), v("y"), v("z")},
			Global:    []Constraint{atMostOne("x", "y", "z")},
		}, []string{"a", "b", "y"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.p.Solve(unlimited{})
			require.NoError(t, err)
			require.Equal(t, ids(row.want...), got)
		})
	}
}

func TestExplainsAClashWithMinimalConstraints(t *testing.T) {
	innocent := []Variable{v("i", must(), needs("j")), v("j")}
	for _, row := range []struct {
		name string
		p    Problem
		want []string
	}{
		{"mandatory and prohibited", Problem{Variables: []Variable{v("a", must(), never())}}, []string{"a must", "a never"}},
		{"a dependency without candidates", Problem{Variables: []Variable{v("a", must(), needs())}}, []string{"a must", "a needs"}},
		{"two dependencies on a limited set", Problem{
			Variables: []Variable{v("a", must(), needs("x")), v("b", must(), needs("y")), v("x"), v("y")},
			Global:    []Constraint{atMostOne("x", "y")},
		}, []string{"a must", "a needs", "b must", "b needs", " at most one"}},
		{"two mandatory variables of a limited set", Problem{
			Variables: []Variable{v("a", must()), v("b", must())}, Global: []Constraint{atMostOne("a", "b")},
		}, []string{"a must", "b must", " at most one"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.p.Variables = append(innocent, row.p.Variables...)
			_, err := row.p.Solve(unlimited{})
			var clash *Unsatisfiable
			require.ErrorAs(t, err, &clash)
			var got []string
			for _, a := range clash.Core {
				got = append(got, a.Variable.String()+" "+a.Constraint.Note.(string))
			}
			require.Equal(t, row.want, got)
		})
	}
}

func TestRejectsInvalidProblems(t *testing.T) {
	for _, p := range []Problem{
		{Variables: []Variable{v("a"), v("a")}},
		{Variables: []Variable{v("a", needs("b"))}},
		{Variables: []Variable{v("a")}, Global: []Constraint{must()}},
		{Variables: []Variable{v("a")}, Global: []Constraint{atMostOne("b")}},
	} {
		_, err := p.Solve(unlimited{})
		require.ErrorContains(t, err, "sat: ")
	}
}

// unlimited is a budget without a limit.
type unlimited struct{}

func (unlimited) Spend(int) error { return nil }

// limitedBudget is a budget that is exhausted when its total cost is spent.
type limitedBudget struct{ left int }

var errSpent = errors.New("spent")

func (p *limitedBudget) Spend(cost int) error {
	if p.left -= cost; p.left < 0 {
		return errSpent
	}
	return nil
}

// pigeonhole states that n+1 pigeons fit into n holes. A clause-learning solver needs exponential time to refute this.
func pigeonhole(n int) Problem {
	var p Problem
	holes := make([][]string, n)
	for pigeon := range n + 1 {
		var in []string
		for hole := range n {
			id := fmt.Sprint("p", pigeon, "h", hole)
			in, holes[hole] = append(in, id), append(holes[hole], id)
			p.Variables = append(p.Variables, v(id))
		}
		p.Variables = append(p.Variables, v(fmt.Sprint("p", pigeon), must(), needs(in...)))
	}
	for _, names := range holes {
		p.Global = append(p.Global, atMostOne(names...))
	}
	return p
}

func TestStopsWhenTheBudgetIsExhausted(t *testing.T) {
	for _, cost := range []int{0, 1_000, 100_000, 10_000_000} {
		_, err := pigeonhole(14).Solve(&limitedBudget{left: cost})
		require.ErrorIs(t, err, errSpent, "a budget of %d", cost)
	}
	_, err := pigeonhole(5).Solve(&limitedBudget{left: 10_000_000})
	var clash *Unsatisfiable
	require.ErrorAs(t, err, &clash, "a small problem is decided")
}

func TestIDsOfDifferentScopesDiffer(t *testing.T) {
	scope := &Scope{In: "catalog/ns", Name: "stable"}
	require.Equal(t, "catalog/ns/stable/a", ID{scope, "a"}.String())
	require.Equal(t, "@existing/a", ID{&Scope{In: "@existing"}, "a"}.String())
	require.True(t, ID{scope, "a"} == ID{scope, string([]byte("a"))})
	require.False(t, ID{scope, "a"} == ID{&Scope{In: "catalog/ns", Name: "stable"}, "a"})
}
