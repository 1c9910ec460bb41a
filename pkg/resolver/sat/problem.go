package sat

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-air/gini"
	"github.com/go-air/gini/z"
)

// Problem is a set of variables, and of constraints that do not belong to a variable (Kind AtMostOne).
type Problem struct {
	Variables []Variable
	Global    []Constraint
}

const (
	satisfiable   = 1
	unsatisfiable = -1
)

// Solve returns the preferred solution, in the order in which its variables were taken. The error is *Unsatisfiable if
// there is none, or the budget's error if the budget is exhausted.
func (p Problem) Solve(budget Budget) ([]ID, error) {
	e, err := p.encode(budget, false)
	if err != nil {
		return nil, err
	}
	switch result, err := e.solve(); {
	case err != nil:
		return nil, err
	case result == satisfiable:
		return e.prefer()
	case result == unsatisfiable:
		return nil, p.explain(budget)
	}
	return nil, errUndecided
}

var errUndecided = errors.New("sat: the solver found no answer")

// encoding is a problem in conjunctive normal form. If it is guarded, each constraint applies only while its guard is
// assumed.
type encoding struct {
	problem Problem
	budget  Budget
	g       *gini.Gini
	lits    map[ID]z.Lit
	index   map[ID]int
	guards  []z.Lit
	applied []Applied
}

func (p Problem) encode(budget Budget, guarded bool) (*encoding, error) {
	if err := budget.Spend(len(p.Variables)); err != nil {
		return nil, err
	}
	e := &encoding{
		problem: p, budget: budget, g: gini.NewVc(p.literals(guarded)+1, 0),
		lits: make(map[ID]z.Lit, len(p.Variables)), index: make(map[ID]int, len(p.Variables)),
	}
	for i, v := range p.Variables {
		if _, exists := e.lits[v.ID]; exists {
			return nil, fmt.Errorf("sat: duplicate variable %q", v.ID)
		}
		e.lits[v.ID], e.index[v.ID] = e.g.Lit(), i
	}
	for _, v := range p.Variables {
		for _, c := range v.Constraints {
			if err := e.add(v.ID, c, guarded); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range p.Global {
		if c.Kind != AtMostOne {
			return nil, errors.New("sat: only AtMostOne can constrain the whole problem")
		}
		if err := e.add(ID{}, c, guarded); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// literals returns how many variables the solver has for the problem. It takes about 400 bytes for each, so it is not told a higher number.
func (p Problem) literals(guarded bool) int {
	n := len(p.Variables)
	count := func(constraints []Constraint) {
		for _, c := range constraints {
			if guarded {
				n++
			}
			if c.Kind == AtMostOne {
				n += max(0, len(c.IDs)-1)
			}
		}
	}
	for _, v := range p.Variables {
		count(v.Constraints)
	}
	count(p.Global)
	return n
}

func (e *encoding) add(id ID, c Constraint, guarded bool) error {
	if err := e.budget.Spend(1 + len(c.IDs)); err != nil {
		return err
	}
	others := make([]z.Lit, 0, len(c.IDs))
	for _, other := range c.IDs {
		m, ok := e.lits[other]
		if !ok {
			return fmt.Errorf("sat: unknown variable %q", other)
		}
		others = append(others, m)
	}
	var negatedGuard []z.Lit
	if guarded {
		guard := e.g.Lit()
		negatedGuard = []z.Lit{guard.Not()}
		e.guards = append(e.guards, guard)
		e.applied = append(e.applied, Applied{Variable: id, Constraint: c})
	}
	lit := e.lits[id]
	switch c.Kind {
	case Mandatory:
		e.clause(negatedGuard, lit)
	case Prohibited:
		e.clause(negatedGuard, lit.Not())
	case Dependency:
		e.clause(negatedGuard, append([]z.Lit{lit.Not()}, others...)...)
	case AtMostOne:
		e.atMostOne(negatedGuard, others)
	}
	return nil
}

func (e *encoding) clause(negatedGuard []z.Lit, lits ...z.Lit) {
	for _, m := range negatedGuard {
		e.g.Add(m)
	}
	for _, m := range lits {
		e.g.Add(m)
	}
	e.g.Add(z.LitNull)
}

// atMostOne uses a sequential counter (Sinz 2005): for each literal but the last, a new variable is true if that literal
// or an earlier one is true.
func (e *encoding) atMostOne(negatedGuard, lits []z.Lit) {
	before := z.LitNull
	for i, m := range lits {
		if i > 0 {
			e.clause(negatedGuard, m.Not(), before.Not())
		}
		if i == len(lits)-1 {
			return
		}
		reached := e.g.Lit()
		if i > 0 {
			e.clause(nil, before.Not(), reached)
		}
		e.clause(nil, m.Not(), reached)
		before = reached
	}
}

// prefer returns the preferred solution, as the package documentation defines it.
func (e *encoding) prefer() ([]ID, error) {
	taken := map[ID]bool{}
	var row []ID
	var lits []z.Lit
	take := func(id ID) {
		if !taken[id] {
			taken[id] = true
			row, lits = append(row, id), append(lits, e.lits[id])
		}
	}
	for _, v := range e.problem.Variables {
		if slices.ContainsFunc(v.Constraints, func(c Constraint) bool { return c.Kind == Mandatory }) {
			take(v.ID)
		}
	}
	for i := 0; i < len(row); i++ {
		for _, c := range e.problem.Variables[e.index[row[i]]].Constraints {
			if err := e.budget.Spend(1 + len(c.IDs)); err != nil {
				return nil, err
			}
			if c.Kind != Dependency || slices.ContainsFunc(c.IDs, func(id ID) bool { return taken[id] }) {
				continue
			}
			id, err := e.first(lits, c.IDs)
			if err != nil {
				return nil, err
			}
			take(id)
		}
	}
	return row, nil
}

// first finds the first candidate that can be taken together with everything taken before. The solver's last solution
// includes everything taken before, so a candidate that is in this solution needs no query.
func (e *encoding) first(row []z.Lit, candidates []ID) (ID, error) {
	current := true
	for _, id := range candidates {
		m := e.lits[id]
		if current && e.g.Value(m) {
			return id, nil
		}
		if err := e.budget.Spend(len(row)); err != nil {
			return ID{}, err
		}
		e.g.Assume(row...)
		e.g.Assume(m)
		switch result, err := e.solve(); {
		case err != nil:
			return ID{}, err
		case result == satisfiable:
			return id, nil
		case result == unsatisfiable:
			current = false
		default:
			return ID{}, errUndecided
		}
	}
	return ID{}, errUndecided // unreachable: a solution exists, so one candidate fits
}

// explain returns an *Unsatisfiable with a minimal set of clashing constraints: if any one is removed, the others can
// be satisfied.
func (p Problem) explain(budget Budget) error {
	e, err := p.encode(budget, true)
	if err != nil {
		return err
	}
	byGuard := make(map[z.Lit]int, len(e.guards))
	for i, guard := range e.guards {
		byGuard[guard] = i
	}
	e.g.Assume(e.guards...)
	switch result, err := e.solve(); {
	case err != nil:
		return err
	case result != unsatisfiable:
		return errUndecided
	}
	core := e.core(byGuard)
	for i := 0; i < len(core); {
		without := slices.Delete(slices.Clone(core), i, i+1)
		if err := budget.Spend(len(without)); err != nil {
			return err
		}
		for _, k := range without {
			e.g.Assume(e.guards[k])
		}
		result, err := e.solve()
		if err != nil {
			return err
		}
		if result != unsatisfiable {
			i++
			continue
		}
		smaller := e.core(byGuard)
		// Constraints before i are needed, so they remain.
		core = slices.DeleteFunc(without, func(k int) bool {
			_, still := slices.BinarySearch(smaller, k)
			return !still
		})
	}
	out := &Unsatisfiable{}
	for _, k := range core {
		out.Core = append(out.Core, e.applied[k])
	}
	return out
}

// core returns the indexes of the guards that made the last query unsatisfiable, in ascending order.
func (e *encoding) core(byGuard map[z.Lit]int) []int {
	var out []int
	for _, m := range e.g.Why(nil) {
		if i, ok := byGuard[m]; ok {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
