package resolver

import (
	"encoding/json"
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
	// MaxOperators bounds the number of versions that are considered for one namespace.
	MaxOperators = 50_000
	// maxCandidates bounds the number of candidates for all requirements of one version, and maxAllCandidates bounds those
	// for the requirements of all versions.
	maxCandidates    = 100_000
	maxAllCandidates = 2_000_000
)

// problem expresses a namespace's rules as constraints.
type problem struct {
	in        Input
	meter     *meter
	sat       sat.Problem
	operators map[sat.ID]*operator
	order     []sat.ID
	// inPlace contains installed and planned versions. present contains the same versions by ID, and others marks those
	// that do not belong to a Subscription.
	inPlace []*operator
	present map[sat.ID]*operator
	others  map[sat.ID]bool
	// needs contains the requirements of each version, keyed by the version's ID; candidates counts the candidates for all
	// requirements.
	needs      map[sat.ID][]*need
	candidates int
	// unavailable are the catalogs whose content is not available.
	unavailable []types.NamespacedName
}

// need is a requirement of an operator and its candidates, best first.
type need struct {
	owner      *operator
	what       requirement
	candidates []*operator
}

// note records the cause of a constraint, for the explanation of a clash.
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

// subscriptions is the scope of the Subscriptions' variables.
var subscriptions = &sat.Scope{In: "subscription"}

// newProblem returns a problem that contains the installed and planned versions.
func (d *decision) newProblem() *problem {
	p := &problem{in: d.in, meter: d.meter, operators: map[sat.ID]*operator{}, present: map[sat.ID]*operator{}, others: map[sat.ID]bool{}, needs: map[sat.ID][]*need{}, unavailable: d.unavailable}
	for _, r := range d.roots {
		if d.meter.Spend(len(r.candidates)) != nil {
			return p
		}
		for _, o := range r.candidates {
			if o.inPlace() {
				p.inPlace = append(p.inPlace, o)
			}
		}
	}
	for _, o := range d.others {
		p.inPlace = append(p.inPlace, o)
		p.others[o.id()] = true
	}
	for _, o := range p.inPlace {
		p.present[o.id()] = o
	}
	return p
}

func (o *operator) inPlace() bool { return o.installed || o.planned }

// build returns the problem for the roots, including all versions that they may require and all constraints.
func (d *decision) build() (*problem, error) {
	p := d.newProblem()
	for _, r := range d.roots {
		if d.meter.chargeProblem(1, memoryOfVersion+2*memoryOfNeed) != nil || d.meter.chargeProblem(len(r.candidates), memoryOfCandidate) != nil {
			return nil, d.meter.err
		}
		ids := p.addAll(r.candidates)
		if r.relaxed {
			continue
		}
		if r.only != nil {
			ids = []sat.ID{r.only.id()}
		}
		p.sat.Variables = append(p.sat.Variables, sat.Variable{ID: sat.ID{Scope: subscriptions, Name: r.name()}, Constraints: []sat.Constraint{
			{Kind: sat.Mandatory, Note: &note{root: r}},
			{Kind: sat.Dependency, IDs: ids, Note: &note{root: r, ids: ids}},
		}})
	}
	p.addAll(p.inPlace)
	for i := 0; i < len(p.order) && d.meter.Spend(1) == nil; i++ {
		id := p.order[i]
		if len(p.order) > MaxOperators || p.candidates > maxAllCandidates {
			return nil, fmt.Errorf("namespace %s has more than %d versions to consider, or more than %d candidates for requirements", d.in.Namespace, MaxOperators, maxAllCandidates)
		}
		variable := sat.Variable{ID: id, Constraints: d.constraintsOf(p, p.operators[id])}
		if p.others[id] {
			variable.Constraints = append(variable.Constraints, sat.Constraint{Kind: sat.Mandatory, Note: &note{other: p.operators[id]}})
		}
		p.sat.Variables = append(p.sat.Variables, variable)
	}
	d.meter.attribute(nil)
	p.addUniqueness()
	return p, d.meter.err
}

// readOthers reads the ClusterServiceVersions that do not belong to a Subscription.
func (d *decision) readOthers(csvs []*operatorsv1alpha1.ClusterServiceVersion) {
	csvs = slices.Clone(csvs)
	slices.SortFunc(csvs, func(a, b *operatorsv1alpha1.ClusterServiceVersion) int { return strings.Compare(a.Name, b.Name) })
	for _, csv := range csvs {
		if d.meter.Spend(1+costOfReading(csv)) != nil {
			return
		}
		f := installedFacts(csv, "")
		_ = d.meter.charge(memoryOfReading(csv, f)) // the meter keeps the error
		f.pkg = f.statedPackage()
		d.others = append(d.others, d.meter.existing(f))
	}
}

// statedPackage returns the package that an installed version's properties name, or "".
func (f *facts) statedPackage() string {
	for _, p := range f.properties {
		var v property.Package
		if p.Type == property.TypePackage && json.Unmarshal(p.Value, &v) == nil {
			return v.PackageName
		}
	}
	return ""
}

// add adds a version to the problem. It returns the meter's error.
func (p *problem) add(o *operator) error {
	id := o.id()
	if p.operators[id] != nil {
		return p.meter.err
	}
	if err := p.meter.chargeProblem(1, memoryOfVersion); err != nil {
		return err
	}
	p.operators[id] = o
	p.order = append(p.order, id)
	return nil
}

// addAll adds versions, for which the caller has paid as candidates, and returns their IDs.
func (p *problem) addAll(all []*operator) []sat.ID {
	ids := make([]sat.ID, 0, len(all))
	for _, o := range all {
		if p.add(o) != nil {
			return nil
		}
		ids = append(ids, o.id())
	}
	return ids
}

// constraintsOf returns the constraints that a version's requirements add.
func (d *decision) constraintsOf(p *problem, o *operator) []sat.Constraint {
	needs, err := d.needsOf(p, o)
	if err != nil {
		return []sat.Constraint{{Kind: sat.Prohibited, Note: &note{op: o, bad: err}}}
	}
	p.needs[o.id()] = needs
	out := make([]sat.Constraint, 0, len(needs))
	for _, n := range needs {
		out = append(out, sat.Constraint{Kind: sat.Dependency, IDs: p.addAll(n.candidates), Note: &note{op: o, need: n}})
	}
	return out
}

// needsOf returns the requirements of a version. A requirement of an installed or planned version is ignored unless
// another installed or planned version currently meets it. If one does, it is not enough that the cluster serves the
// required kind, because the CRD also remains when the last version that owns it is replaced.
func (d *decision) needsOf(p *problem, o *operator) ([]*need, error) {
	p.meter.attribute(o)
	asked, err := o.requirements(p.meter)
	if err != nil {
		if o.inPlace() {
			return nil, nil
		}
		return nil, err
	}
	var out []*need
	before := p.candidates
	for _, r := range dropSelfMet(p.meter, o.facts, asked) {
		if err := p.meter.Spend(1 + len(p.inPlace)); err != nil {
			return nil, err
		}
		if err := p.meter.chargeProblem(1, memoryOfNeed); err != nil {
			return nil, err
		}
		n := &need{owner: o, what: r, candidates: p.metBy(o, r)}
		owned := len(n.candidates) > 0
		if o.inPlace() && !owned {
			continue
		}
		d.addFromCatalogs(n)
		if !owned {
			d.addServed(n)
		}
		out = append(out, n)
		if err := p.meter.Spend(costOfCandidate * len(n.candidates)); err != nil {
			return nil, err
		}
		if p.candidates += len(n.candidates); p.candidates-before > maxCandidates {
			return nil, fmt.Errorf("its requirements have more than %d candidates", maxCandidates)
		}
	}
	return out, nil
}

// metBy returns the installed and planned versions, other than o, that meet a requirement.
func (p *problem) metBy(o *operator, r requirement) []*operator {
	var out []*operator
	for _, present := range p.inPlace {
		if present.id() != o.id() && r.match(p.meter, present.facts) && p.meter.Spend(1+len(out)/10) == nil && !slices.Contains(out, present) {
			if p.meter.chargeProblem(1, memoryOfCandidate) != nil {
				return nil
			}
			out = append(out, present)
		}
	}
	return out
}

// addServed adds one final candidate if the cluster already serves the required kind, whether an operator in another
// namespace provides it or a user created its CRD. OLM v0 does not do this.
func (d *decision) addServed(n *need) {
	a := n.what.api
	if a == nil || d.in.Serves == nil || !d.in.Serves(schema.GroupVersionKind(*a)) {
		return
	}
	if d.meter.chargeProblem(1, memoryOfCandidate) == nil {
		n.candidates = append(n.candidates, d.meter.serving(*a))
	}
}

// addFromCatalogs adds candidates from the catalogs: the operator's own catalog first, then the others in order of
// preference.
func (d *decision) addFromCatalogs(n *need) {
	known := len(n.candidates)
	from := func(x *index) {
		found := x.search(d.meter, n.what)
		if d.meter.chargeProblem(len(found), memoryOfCandidate) != nil {
			return
		}
		for _, o := range found {
			if d.meter.Spend(1+known) != nil {
				return
			}
			own := o.name == n.owner.name && o.pkg == n.owner.pkg
			if !own && !slices.ContainsFunc(n.candidates[:known], func(c *operator) bool { return c.id() == o.id() }) {
				n.candidates = append(n.candidates, o)
			}
		}
	}
	own := d.indexOf(n.owner.catalog)
	if own != nil {
		from(own)
	}
	for _, x := range d.indexes {
		if x != own {
			from(x)
		}
	}
}

// addUniqueness adds the rules that a package has at most one version and a kind at most one owner. Installed and
// planned versions already coexist, so the rules do not apply between two of them.
func (p *problem) addUniqueness() {
	byPackage, byAPI := map[string][]sat.ID{}, map[api][]sat.ID{}
	var packages []string
	var apis []api
	shared := p.sharedKinds()
	for _, id := range p.order {
		o := p.operators[id]
		if o.pkg != "" {
			if byPackage[o.pkg] == nil {
				packages = append(packages, o.pkg)
			}
			byPackage[o.pkg] = append(byPackage[o.pkg], id)
		}
		of := shared[o.facts]
		if p.meter.Spend(1+costOfOwner*len(of)) != nil || p.meter.chargeProblem(len(of), memoryOfOwner) != nil {
			return
		}
		for _, a := range of {
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
		p.atMostOne(byAPI[a], &note{api: &a})
	}
}

// sharedKinds returns, for each bundle, its kinds that a bundle of another package owns as well. If all owners of a kind belong to one
// package, the package's uniqueness rule already covers them. Each bundle counts once, in however many channels it is.
func (p *problem) sharedKinds() map[*facts][]api {
	type owners struct {
		first  *facts
		shared bool
	}
	all, of := map[api]owners{}, map[*facts][]api{}
	earlier := p.meter.ofProblems
	visit := func(see func(f *facts, a api) (charged bool)) {
		seen := make(map[*facts]bool, len(p.order))
		for _, id := range p.order {
			f := p.operators[id].facts
			if seen[f] {
				continue
			}
			seen[f] = true
			if p.meter.Spend(1+costOfOwner*len(f.apis)) != nil {
				return
			}
			for _, a := range f.apis {
				if see(f, a) && p.meter.chargeProblem(1, memoryOfKind) != nil {
					return
				}
			}
		}
	}
	visit(func(f *facts, a api) bool {
		by, known := all[a]
		switch {
		case !known:
			all[a] = owners{first: f}
		case !by.shared && by.first != f && (f.pkg == "" || f.pkg != by.first.pkg):
			all[a] = owners{by.first, true}
		}
		return !known
	})
	found := p.meter.ofProblems - earlier
	visit(func(f *facts, a api) bool {
		if all[a].shared {
			of[f] = append(of[f], a)
		}
		return all[a].shared
	})
	p.meter.release(p.meter.ofProblems - found) // that of all
	return of
}

func (p *problem) atMostOne(ids []sat.ID, n *note) {
	if p.meter.Spend(len(ids)) != nil {
		return
	}
	counted := make([]sat.ID, 0, len(ids))
	var coexisting []sat.ID
	seen := false
	for _, id := range ids {
		o := p.operators[id]
		switch {
		case o.inPlace() && seen:
			coexisting = append(coexisting, id)
			continue
		case o.inPlace():
			seen = true
		}
		counted = append(counted, id)
	}
	n.ids = ids
	if len(counted) > 1 {
		p.sat.Global = append(p.sat.Global, sat.Constraint{Kind: sat.AtMostOne, IDs: counted, Note: n})
	}
	for _, one := range coexisting {
		if p.meter.Spend(costOfCandidate*len(counted)) != nil || p.meter.chargeProblem(len(counted), memoryOfPair) != nil {
			return
		}
		for _, id := range counted {
			if !p.operators[id].inPlace() {
				p.sat.Global = append(p.sat.Global, sat.Constraint{Kind: sat.AtMostOne, IDs: []sat.ID{one, id}, Note: n})
			}
		}
	}
}
