package resolver

import (
	"fmt"
	"slices"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// dropSelfMet removes the requirements that a version meets itself. Another version of its package could not meet them,
// because a namespace has only one version of a package (docs/adr/0079), and another operator is not needed. It charges the
// meter for the compilation of CEL rules.
func dropSelfMet(m *meter, f *facts, asked []requirement) []requirement {
	selfMet := func(r requirement) bool { return m.Spend(r.cost) == nil && r.match(m, f) }
	first := slices.IndexFunc(asked, selfMet)
	if first < 0 {
		return asked
	}
	rest := slices.Clone(asked[:first])
	for _, r := range asked[first+1:] {
		if !selfMet(r) {
			rest = append(rest, r)
		}
	}
	return rest
}

// adviseOneVersion explains a clash of two versions of a package in which only one Subscription is involved.
func adviseOneVersion(core []sat.Applied, r *root, pkg string) string {
	for _, a := range core {
		n := a.Constraint.Note.(*note)
		switch {
		case n.need != nil && n.need.owner.pkg == pkg:
			return fmt.Sprintf("Bundle %q requires another version of its own package %q, but a namespace can have only one version of a package: "+
				"choose a version without this requirement, or add a catalog in which another package meets it", n.need.owner.name, pkg)
		case n.other != nil && n.other.pkg == pkg:
			return fmt.Sprintf("ClusterServiceVersion %q of package %q belongs to no subscription, and a namespace can have only one version of a package: "+
				"delete the ClusterServiceVersion, or delete subscription %s", n.other.name, pkg, r.name())
		}
	}
	return fmt.Sprintf("Subscription %s requires two versions of package %s, but a namespace can have only one: "+
		"choose another channel, or use another namespace for the operator that needs the other version", r.name(), pkg)
}
