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
	wanted := make([][]*operator, 0, len(d.roots))
	for _, r := range d.roots {
		if r.loose {
			return nil, nil, false
		}
		wanted = append(wanted, r.candidates)
	}
	for _, o := range p.inPlace {
		if p.others[o.id] && !t.take(o) {
			return nil, nil, false
		}
	}
	looked := 0
	for i := 0; i < len(wanted) || looked < len(p.order); {
		if i < len(wanted) {
			all := wanted[i]
			i++
			if slices.ContainsFunc(all, func(o *operator) bool { return p.operators[o.id] != nil }) {
				continue
			}
			if len(all) == 0 || !t.take(all[0]) {
				return nil, nil, false
			}
			continue
		}
		o := p.operators[p.order[looked]]
		looked++
		needs, err := d.needsOf(p, o)
		if err != nil || len(p.order) > MaxOperators {
			return nil, nil, false
		}
		p.needs[o.id] = needs
		for _, n := range needs {
			wanted = append(wanted, n.candidates)
		}
	}
	return p, p.order, true
}

// table is what was taken, by what there may be one of.
type table struct {
	*problem
	packages map[string]*operator
	owners   map[api]*operator
}

// take adds a version, unless it clashes with another.
func (t *table) take(o *operator) bool {
	if old := t.packages[o.pkg]; o.pkg != "" && old != nil && !(old.inPlace() && o.inPlace()) {
		return false
	}
	for _, a := range o.apis {
		if old := t.owners[a]; old != nil && !(old.inPlace() && o.inPlace()) {
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
