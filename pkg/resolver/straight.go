package resolver

import (
	"slices"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// straight takes the best version for each Subscription, and for each need of what it has taken. Where nothing
// of that clashes, which is the rule, it is the preferred solution by its very definition, and the solver is
// not asked.
func (d *decision) straight() (*problem, []sat.ID, bool) {
	p := d.open()
	t := &table{problem: p, packages: map[string]*operator{}, owners: map[api]*operator{}}
	for _, r := range d.roots {
		if r.loose {
			return nil, nil, false
		}
		t.wanted = append(t.wanted, r.candidates)
	}
	for _, o := range p.inPlace {
		if p.others[o.id] && !t.take(o) {
			return nil, nil, false
		}
	}
	for looked := 0; len(t.wanted) > 0 || looked < len(p.order); {
		if len(t.wanted) > 0 {
			if !t.takeOne() {
				return nil, nil, false
			}
			continue
		}
		if !d.wantNeeds(t, p.operators[p.order[looked]]) {
			return nil, nil, false
		}
		looked++
	}
	return p, p.order, true
}

// wantNeeds adds the dependencies of an operator to the choices to make. It reports false when a limit is exceeded.
func (d *decision) wantNeeds(t *table, o *operator) bool {
	if d.meter.Spend(1) != nil {
		return false
	}
	needs, err := d.needsOf(t.problem, o)
	if err != nil || len(t.order) > MaxOperators || t.candidates > maxAllCandidates {
		return false
	}
	t.needs[o.id] = needs
	for _, n := range needs {
		t.wanted = append(t.wanted, n.candidates)
	}
	return true
}

// table is what was taken, by what there may be one of, and the choices that are still to be made.
type table struct {
	*problem
	packages map[string]*operator
	owners   map[api]*operator
	wanted   [][]*operator
}

// takeOne makes the next choice: the best version, unless one of them is taken already.
func (t *table) takeOne() bool {
	all := t.wanted[0]
	t.wanted = t.wanted[1:]
	if t.meter.Spend(1+len(all)) != nil {
		return false
	}
	if slices.ContainsFunc(all, func(o *operator) bool { return t.operators[o.id] != nil }) {
		return true
	}
	return len(all) > 0 && t.take(all[0])
}

// take adds a version, unless it clashes with another.
func (t *table) take(o *operator) bool {
	if o.pkg != "" && rivals(o, t.packages[o.pkg]) {
		return false
	}
	for _, a := range o.apis {
		if rivals(o, t.owners[a]) {
			return false
		}
	}
	t.add(o)
	t.packages[o.pkg] = o
	for _, a := range o.apis {
		t.owners[a] = o
	}
	return true
}

// rivals says whether two versions, which claim the same, cannot stand beside each other: those that do, may.
func rivals(o, old *operator) bool {
	return old != nil && (!old.inPlace() || !o.inPlace())
}
