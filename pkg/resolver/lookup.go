package resolver

import (
	"cmp"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Problem describes why one Subscription cannot be resolved. It does not affect other Subscriptions.
type Problem struct {
	Reason  string
	Message string
}

// Reasons of a Problem (OLM v0 contract).
const (
	ConstraintsNotSatisfiable = "ConstraintsNotSatisfiable"
	ErrorPreventedResolution  = "ErrorPreventedResolution"
)

// unsatisfiable returns a problem with reason ConstraintsNotSatisfiable, in the wording of the contract.
func unsatisfiable(sub *operatorsv1alpha1.Subscription, format string, args ...any) *Problem {
	return &Problem{Reason: ConstraintsNotSatisfiable, Message: fmt.Sprintf(
		"constraints not satisfiable: %s, subscription %s exists", fmt.Sprintf(format, args...), sub.Name)}
}

// operator is a version that is, or could be, in the namespace.
type operator struct {
	*facts
	*origin
	// installed is true for a version that exists. planned is true for a version that a plan is installing.
	// Selecting such a version is not a change.
	installed, planned bool
	// replaces names the installed version that this one replaces.
	replaces string
}

// id returns the contract's identifier of a catalog entry or an installed version. There can be hundreds of thousands of operators, so
// they share everything but their names.
func (o *operator) id() sat.ID { return sat.ID{Scope: &o.scope, Name: o.name} }

// origin is where operators come from. A resolution has one for each channel name of a catalog, and one for all installed versions.
type origin struct {
	scope sat.Scope
	// catalog and channel are empty for an installed version.
	catalog types.NamespacedName
	channel string
}

// newOrigin returns the origin of the versions in a catalog's channels of a name.
func newOrigin(catalog types.NamespacedName, of, channel string) *origin {
	return &origin{scope: sat.Scope{In: of, Name: channel}, catalog: catalog, channel: channel}
}

// existing returns the operator of an installed version.
func (m *meter) existing(f *facts) *operator {
	return &operator{facts: f, origin: &m.here, installed: true}
}

func (m *meter) existingID(name string) sat.ID { return sat.ID{Scope: &m.here.scope, Name: name} }

// serving returns the operator that stands for a kind that the cluster serves. There is one for each kind.
func (m *meter) serving(a api) *operator {
	o := m.served[a]
	if o == nil {
		o = &operator{
			facts: &facts{name: a.String()}, installed: true,
			origin: &origin{scope: sat.Scope{In: "@cluster/" + a.Group + "/" + a.Version + "/" + a.Kind}},
		}
		m.served[a] = o
	}
	return o
}

// found is the channel that a Subscription selects.
type found struct {
	index   *index
	channel string
	chain   *chain
}

// canUse reports whether the namespace can use a catalog. It can use its own catalogs and, unless they are excluded,
// the global ones.
func (in Input) canUse(catalog types.NamespacedName) bool {
	return catalog.Namespace == in.Namespace || catalog.Namespace == in.GlobalCatalogNamespace && !in.ExcludeGlobal
}

// Snapshot returns the content of a catalog if the namespace can use it. Any user may have written the key, and Catalogs also contains
// the catalogs of other namespaces, so that everything that depends on a catalog's content gets it from here.
func (in Input) Snapshot(key types.NamespacedName) (*catalog.Snapshot, bool) {
	if in.Catalogs == nil || !in.canUse(key) {
		return nil, false
	}
	return in.Catalogs.Get(key)
}

// HasContent reports whether the content of one of the Visible catalogs is available. Global catalogs are visible even if they are excluded.
func (in Input) HasContent(key types.NamespacedName) bool {
	in.ExcludeGlobal = false
	_, ok := in.Snapshot(key)
	return ok
}

// findChannel finds the channel of a Subscription, which defaults to the package's default channel.
func (d *decision) findChannel(s Subject) (*found, *Problem) {
	sub, spec := s.Subscription, s.Subscription.Spec
	key := types.NamespacedName{Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource}
	if !d.in.canUse(key) {
		return nil, unsatisfiable(sub, "catalog %s in namespace %s is not visible from namespace %s: only catalogs in that "+
			"namespace%s", key.Name, key.Namespace, sub.Namespace, d.in.visibleCatalogs())
	}
	x := d.indexOf(key)
	if x == nil {
		return nil, &Problem{Reason: ErrorPreventedResolution, Message: fmt.Sprintf(
			"error using catalogsource %s: its content is not available", key)}
	}
	pkg, ok := x.packages[spec.Package]
	if !ok {
		return nil, unsatisfiable(sub, "no operators found in package %s in the catalog referenced by subscription %s", spec.Package, sub.Name)
	}
	name := cmp.Or(spec.Channel, pkg.DefaultChannel)
	switch _, ok := pkg.Channels[name]; {
	case name == "" && !ok:
		return nil, unsatisfiable(sub, "package %s in the catalog referenced by subscription %s has no default channel: set "+
			"spec.channel (available channels: %s)", pkg.Name, sub.Name, abbreviate(x.channels(d.meter, pkg.Name)))
	case !ok:
		return nil, unsatisfiable(sub, "no operators found in channel %s of package %s in the catalog referenced by subscription %s "+
			"(available channels: %s)", name, pkg.Name, sub.Name, abbreviate(x.channels(d.meter, pkg.Name)))
	}
	f := &found{index: x, channel: name, chain: x.chainOf(pkg.Name, name)}
	if f.chain.err != nil && (s.Installed != nil || spec.StartingCSV == "") {
		return f, unsatisfiable(sub, "package %s: %s", pkg.Name, f.chain.err)
	}
	return f, nil
}

func (in Input) visibleCatalogs() string {
	if in.ExcludeGlobal {
		return " are, because its OperatorGroup excludes global catalogs"
	}
	return " and in namespace " + in.GlobalCatalogNamespace + " are"
}

// installable returns the versions that satisfy a Subscription with nothing installed: its startingCSV if it is set,
// otherwise all versions of its channel, newest first.
func installable(m *meter, sub *operatorsv1alpha1.Subscription, f *found) ([]*operator, *Problem) {
	bundles := f.index.bundles[sub.Spec.Package]
	var names []string
	var operators []operator
	if name := sub.Spec.StartingCSV; name != "" {
		_, inChannel := f.index.packages[sub.Spec.Package].Channels[f.channel].Entries[name]
		if !inChannel || bundles[name] == nil {
			return nil, notFound(sub, f, name)
		}
		names = []string{name}
	} else {
		if names, operators = f.chain.installable, f.index.operatorsOf(m, f.chain); m.err != nil {
			return nil, nil
		}
	}
	var out []*operator
	deprecated := ""
	for i, name := range names {
		switch facts := bundles[name]; {
		case facts == nil:
		case facts.deprecated:
			deprecated = name
		case operators == nil:
			out = append(out, f.index.newOperator(f.channel, facts))
		default:
			out = append(out, &operators[i])
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case deprecated != "":
		return nil, unsatisfiable(sub, "bundle %s is deprecated", deprecated)
	}
	return nil, notFound(sub, f, names[0])
}

func notFound(sub *operatorsv1alpha1.Subscription, f *found, name string) *Problem {
	return unsatisfiable(sub, "no operators found with name %s in channel %s of package %s in the catalog referenced by subscription %s",
		name, f.channel, sub.Spec.Package, sub.Name)
}
