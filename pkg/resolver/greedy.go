package resolver

import (
	"slices"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// solveGreedily selects the best version for each Subscription and for each need of the versions selected so far. If
// nothing clashes, as is usually the case, the result is the preferred solution by definition, and the solver is not
// needed. Otherwise, solveGreedily returns false.
func (d *decision) solveGreedily() (*problem, []sat.ID, bool) {
	p := d.newProblem()
	t := &selection{problem: p, packages: map[string]*operator{}, owners: map[api]*operator{}}
	for _, r := range d.roots {
		if r.relaxed {
			return nil, nil, false
		}
		t.wanted = append(t.wanted, r.candidates)
	}
	for _, o := range p.inPlace {
		if p.others[o.id()] && !t.take(o) {
			return nil, nil, false
		}
	}
	for next := 0; len(t.wanted) > 0 || next < len(p.order); {
		if len(t.wanted) > 0 {
			if !t.takeOne() {
				return nil, nil, false
			}
			continue
		}
		if !d.wantNeeds(t, p.operators[p.order[next]]) {
			return nil, nil, false
		}
		next++
	}
	return p, p.order, true
}

// wantNeeds adds the dependencies of an operator to the choices still to be made. It returns false if a limit is
// exceeded.
func (d *decision) wantNeeds(t *selection, o *operator) bool {
	if d.meter.Spend(1) != nil {
		return false
	}
	needs, err := d.needsOf(t.problem, o)
	if err != nil || len(t.order) > MaxOperators || t.candidates > maxAllCandidates {
		return false
	}
	t.needs[o.id()] = needs
	for _, n := range needs {
		t.wanted = append(t.wanted, n.candidates)
	}
	return true
}

// selection contains the versions chosen so far, indexed by package and by owned kind, and the choices still to be
// made.
type selection struct {
	*problem
	packages map[string]*operator
	owners   map[api]*operator
	wanted   [][]*operator
}

// takeOne makes the next choice: it selects the best candidate, unless one of the candidates is already selected. It
// returns false if there is no candidate or the best one clashes.
func (t *selection) takeOne() bool {
	all := t.wanted[0]
	t.wanted = t.wanted[1:]
	if t.meter.Spend(1+len(all)) != nil {
		return false
	}
	if slices.ContainsFunc(all, func(o *operator) bool { return t.operators[o.id()] != nil }) {
		return true
	}
	return len(all) > 0 && t.take(all[0])
}

// take adds a version to the selection. It returns false if the version clashes with one that is already selected.
func (t *selection) take(o *operator) bool {
	if t.meter.Spend(costOfOwner*len(o.apis)) != nil || t.meter.chargeProblem(len(o.apis), memoryOfKind) != nil {
		return false
	}
	if o.pkg != "" && clashes(o, t.packages[o.pkg]) {
		return false
	}
	for _, a := range o.apis {
		if clashes(o, t.owners[a]) {
			return false
		}
	}
	if t.add(o) != nil {
		return false
	}
	t.packages[o.pkg] = o
	for _, a := range o.apis {
		t.owners[a] = o
	}
	return true
}

// clashes reports whether two versions that claim the same package or kind cannot coexist. If both versions are
// installed or planned, they already coexist.
func clashes(o, old *operator) bool {
	return old != nil && (!old.inPlace() || !o.inPlace())
}
