package resolver

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

const (
	// MaxOperators bounds the versions that are looked at for one namespace.
	MaxOperators = 50_000
	// maxCandidates bounds what the requirements of one version may be met by, together, and maxAllCandidates what
	// those of all versions may.
	maxCandidates    = 100_000
	maxAllCandidates = 2_000_000
)

// problem is a namespace's rules as constraints.
type problem struct {
	in        Input
	meter     *meter
	sat       sat.Problem
	operators map[sat.ID]*operator
	order     []sat.ID
	// inPlace are the versions that are there or on their way; others those of them that no Subscription brought.
	inPlace []*operator
	others  map[sat.ID]bool
	// needs are the requirements of a version, by its ID; candidates counts what there is for them.
	needs      map[sat.ID][]*need
	candidates int
	// sick are the catalogs that have no content.
	sick []types.NamespacedName
}

// need is a requirement of an operator with the candidates for it, the best first.
type need struct {
	of         *operator
	what       requirement
	candidates []*operator
}

// note says, in a clash, what a constraint is about.
type note struct {
	root  *root
	op    *operator
	need  *need
	bad   error
	api   *api
	pkg   string
	ids   []sat.ID
	other *operator
}

// open begins a problem with what is in place.
func (d *decision) open() *problem {
	p := &problem{in: d.in, meter: d.meter, operators: map[sat.ID]*operator{}, others: map[sat.ID]bool{}, needs: map[sat.ID][]*need{}, sick: d.sick}
	for _, r := range d.roots {
		for _, o := range r.candidates {
			if o.inPlace() {
				p.inPlace = append(p.inPlace, o)
			}
		}
	}
	for _, o := range d.others {
		p.inPlace = append(p.inPlace, o)
		p.others[o.id] = true
	}
	return p
}

func (o *operator) inPlace() bool { return o.installed || o.settled }

// build makes the whole problem of the roots.
func (d *decision) build() (*problem, error) {
	p := d.open()
	for _, r := range d.roots {
		ids := p.addAll(r.candidates)
		if r.loose {
			continue
		}
		if r.must != nil {
			ids = []sat.ID{r.must.id}
		}
		p.sat.Variables = append(p.sat.Variables, sat.Variable{ID: rootID(r), Constraints: []sat.Constraint{
			{Kind: sat.Mandatory, Note: &note{root: r}},
			{Kind: sat.Dependency, IDs: ids, Note: &note{root: r, ids: ids}},
		}})
	}
	p.addAll(p.inPlace)
	for i := 0; i < len(p.order) && d.meter.Spend(1) == nil; i++ {
		id := p.order[i]
		if len(p.order) > MaxOperators || p.candidates > maxAllCandidates {
			return nil, fmt.Errorf("more than %d versions are to be looked at, or %d that meet a requirement", MaxOperators, maxAllCandidates)
		}
		variable := sat.Variable{ID: id, Constraints: d.demands(p, p.operators[id])}
		if p.others[id] {
			variable.Constraints = append(variable.Constraints, sat.Constraint{Kind: sat.Mandatory, Note: &note{other: p.operators[id]}})
		}
		p.sat.Variables = append(p.sat.Variables, variable)
	}
	d.meter.blame(nil)
	p.unique()
	return p, d.meter.err
}

func rootID(r *root) sat.ID { return sat.ID("subscription:" + r.name()) }

// readOthers reads the ClusterServiceVersions that no Subscription has brought.
func (d *decision) readOthers(csvs []*operatorsv1alpha1.ClusterServiceVersion) {
	csvs = slices.Clone(csvs)
	slices.SortFunc(csvs, func(a, b *operatorsv1alpha1.ClusterServiceVersion) int { return strings.Compare(a.Name, b.Name) })
	for _, csv := range csvs {
		if d.meter.Spend(1+costOfReading(csv)) != nil {
			return
		}
		f := installedFacts(csv, "")
		f.pkg = f.statedPackage()
		d.others = append(d.others, d.in.existing(f))
	}
}

// statedPackage is the package that an installed version says it is of; "" where it does not say.
func (f *facts) statedPackage() string {
	for _, p := range f.properties {
		if v, err := packageProperty(p); err == nil && p.Type == property.TypePackage {
			return v.PackageName
		}
	}
	return ""
}

func (p *problem) add(o *operator) {
	if p.operators[o.id] == nil {
		p.operators[o.id] = o
		p.order = append(p.order, o.id)
	}
}

func (p *problem) addAll(all []*operator) []sat.ID {
	ids := make([]sat.ID, 0, len(all))
	for _, o := range all {
		p.add(o)
		ids = append(ids, o.id)
	}
	return ids
}

// demands are the constraints of a version's own.
func (d *decision) demands(p *problem, o *operator) []sat.Constraint {
	needs, err := d.needsOf(p, o)
	if err != nil {
		return []sat.Constraint{{Kind: sat.Prohibited, Note: &note{op: o, bad: err}}}
	}
	p.needs[o.id] = needs
	out := make([]sat.Constraint, 0, len(needs))
	for _, n := range needs {
		out = append(out, sat.Constraint{Kind: sat.Dependency, IDs: p.addAll(n.candidates), Note: &note{op: o, need: n}})
	}
	return out
}

// needsOf are the requirements of a version. What is in place keeps what it needs, if it has that, and asks for
// nothing else.
func (d *decision) needsOf(p *problem, o *operator) ([]*need, error) {
	p.meter.blame(o)
	asked, err := o.requirements(p.meter)
	if err != nil {
		if o.inPlace() {
			return nil, nil
		}
		return nil, err
	}
	var out []*need
	before := p.candidates
	for _, r := range p.unmetBy(o, asked) {
		if err := p.meter.Spend(1 + r.cost + len(p.inPlace)); err != nil {
			return nil, err
		}
		n := &need{of: o, what: r}
		for _, there := range p.inPlace {
			if there.id != o.id && r.match(p.meter, there.facts) && !slices.Contains(n.candidates, there) {
				n.candidates = append(n.candidates, there)
			}
		}
		if o.inPlace() && len(n.candidates) == 0 {
			continue
		}
		d.offers(n)
		d.served(n)
		out = append(out, n)
		if err := p.meter.Spend(costOfCandidate * len(n.candidates)); err != nil {
			return nil, err
		}
		if p.candidates += len(n.candidates); p.candidates-before > maxCandidates {
			return nil, fmt.Errorf("its requirements are met by more than %d versions", maxCandidates)
		}
	}
	return out, nil
}

// unmetBy leaves out the kinds that a version requires and owns itself.
func (p *problem) unmetBy(o *operator, asked []requirement) []requirement {
	return slices.DeleteFunc(slices.Clone(asked), func(r requirement) bool { return r.api != nil && r.match(p.meter, o.facts) })
}

// served adds, as the last resort, what the cluster serves whoever brought it: an operator of another namespace, or
// a person. OLM v0 does not know this one.
func (d *decision) served(n *need) {
	a := n.what.api
	if a == nil || d.in.Serves == nil || !d.in.Serves(schema.GroupVersionKind(*a)) {
		return
	}
	n.candidates = append(n.candidates, &operator{
		facts: &facts{name: a.String()}, installed: true, id: sat.ID("@cluster/" + a.Group + "/" + a.Version + "/" + a.Kind),
	})
}

// offers adds what the catalogs have for a need: the operator's own one first, then the others in order.
func (d *decision) offers(n *need) {
	there := len(n.candidates)
	from := func(x *index) {
		for _, o := range x.search(d.meter, n.what) {
			if d.meter.Spend(1+there) != nil {
				return
			}
			own := o.name == n.of.name && o.pkg == n.of.pkg
			if !own && !slices.ContainsFunc(n.candidates[:there], func(c *operator) bool { return c.id == o.id }) {
				n.candidates = append(n.candidates, o)
			}
		}
	}
	own := d.indexOf(n.of.catalog)
	if own != nil {
		from(own)
	}
	for _, x := range d.indexes {
		if x != own {
			from(x)
		}
	}
}

// unique says that there is one version of a package, and one owner of a kind. What is in place is there
// together: only the first of it counts beside what is new.
func (p *problem) unique() {
	byPackage, byAPI := map[string][]sat.ID{}, map[api][]sat.ID{}
	var packages []string
	var apis []api
	for _, id := range p.order {
		o := p.operators[id]
		if o.pkg != "" {
			if byPackage[o.pkg] == nil {
				packages = append(packages, o.pkg)
			}
			byPackage[o.pkg] = append(byPackage[o.pkg], id)
		}
		for _, a := range o.apis {
			if byAPI[a] == nil {
				apis = append(apis, a)
			}
			byAPI[a] = append(byAPI[a], id)
		}
	}
	for _, pkg := range packages {
		p.atMostOne(byPackage[pkg], &note{pkg: pkg})
	}
	for _, a := range apis {
		if ids := byAPI[a]; !p.samePackage(ids) {
			p.atMostOne(ids, &note{api: &a})
		}
	}
}

// samePackage says that a rule on a package holds for all of them already.
func (p *problem) samePackage(ids []sat.ID) bool {
	first := p.operators[ids[0]].pkg
	return first != "" && !slices.ContainsFunc(ids, func(id sat.ID) bool { return p.operators[id].pkg != first })
}

func (p *problem) atMostOne(ids []sat.ID, n *note) {
	if p.meter.Spend(len(ids)) != nil {
		return
	}
	counted := make([]sat.ID, 0, len(ids))
	var beside []sat.ID
	there := false
	for _, id := range ids {
		o := p.operators[id]
		switch {
		case o.inPlace() && there:
			beside = append(beside, id)
			continue
		case o.inPlace():
			there = true
		}
		counted = append(counted, id)
	}
	n.ids = ids
	if len(counted) > 1 {
		p.sat.Global = append(p.sat.Global, sat.Constraint{Kind: sat.AtMost, N: 1, IDs: counted, Note: n})
	}
	for _, one := range beside {
		if p.meter.Spend(costOfCandidate*len(counted)) != nil {
			return
		}
		for _, id := range counted {
			if !p.operators[id].inPlace() {
				p.sat.Global = append(p.sat.Global, sat.Constraint{Kind: sat.AtMost, N: 1, IDs: []sat.ID{one, id}, Note: n})
			}
		}
	}
}
