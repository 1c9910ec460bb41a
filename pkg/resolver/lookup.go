package resolver

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Problem says why a Subscription cannot be resolved. It concerns that Subscription only.
type Problem struct {
	Reason  string
	Message string
}

func (p *Problem) Error() string { return p.Message }

// Reasons of a Problem (contract 1.2).
const (
	ConstraintsNotSatisfiable = "ConstraintsNotSatisfiable"
	ErrorPreventedResolution  = "ErrorPreventedResolution"
)

// unsatisfiable words a problem as the contract does, and ends with what would solve it.
func unsatisfiable(sub *operatorsv1alpha1.Subscription, format string, args ...any) *Problem {
	return &Problem{Reason: ConstraintsNotSatisfiable, Message: fmt.Sprintf(
		"constraints not satisfiable: %s, subscription %s exists", fmt.Sprintf(format, args...), sub.Name)}
}

// operator is a version that may be, or is, in the namespace.
type operator struct {
	*facts
	// id is the contract's name of an entry, or of what is installed (1.3).
	id sat.ID
	// catalog and channel are empty for what is installed.
	catalog types.NamespacedName
	channel string
	// installed is there, settled is being installed: neither is a change.
	installed, settled bool
	// replaces names the installed version whose place it takes.
	replaces string
}

// existing is what is installed.
func (in Input) existing(f *facts) *operator {
	return &operator{facts: f, id: in.existingID(f.name), installed: true}
}

func (in Input) existingID(name string) sat.ID {
	return sat.ID("@existing/" + in.Namespace + "//" + name)
}

// found is the channel that a Subscription names.
type found struct {
	index   *index
	channel string
	chain   *chain
}

// sees says whether a catalog may be used from the namespace: its own and the global ones may.
func (in Input) sees(catalog types.NamespacedName) bool {
	return catalog.Namespace == in.Namespace || catalog.Namespace == in.GlobalCatalogNamespace && !in.ExcludeGlobal
}

// lookUp finds the channel of a Subscription, which defaults to the package's.
func (d *decision) lookUp(s Subject) (*found, *Problem) {
	sub, spec := s.Subscription, s.Subscription.Spec
	key := types.NamespacedName{Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource}
	if !d.in.sees(key) {
		return nil, unsatisfiable(sub, "catalog %s in namespace %s is not visible from namespace %s: only catalogs of the namespace "+
			"itself%s", key.Name, key.Namespace, sub.Namespace, d.in.globalToo())
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
	name := spec.Channel
	if name == "" {
		name = pkg.DefaultChannel
	}
	switch _, ok := pkg.Channels[name]; {
	case name == "" && !ok:
		return nil, unsatisfiable(sub, "package %s in the catalog referenced by subscription %s has no default channel: name one in "+
			"spec.channel (its channels are %s)", pkg.Name, sub.Name, some(x.channels(d.meter, pkg.Name)))
	case !ok:
		return nil, unsatisfiable(sub, "no operators found in channel %s of package %s in the catalog referenced by subscription %s "+
			"(its channels are %s)", name, pkg.Name, sub.Name, some(x.channels(d.meter, pkg.Name)))
	}
	f := &found{index: x, channel: name, chain: x.chainOf(pkg.Name, name)}
	if f.chain.err != nil && (s.Installed != nil || spec.StartingCSV == "") {
		return f, unsatisfiable(sub, "package %s: %s", pkg.Name, f.chain.err)
	}
	return f, nil
}

func (in Input) globalToo() string {
	if in.ExcludeGlobal {
		return " are, as its OperatorGroup excludes the global ones"
	}
	return " and of " + in.GlobalCatalogNamespace + " are"
}

// fresh are the versions that would serve a Subscription with nothing installed: the one that it is to start
// with, if it names one, else all of its channel, the newest first.
func fresh(sub *operatorsv1alpha1.Subscription, f *found) ([]*operator, *Problem) {
	bundles := f.index.bundles[sub.Spec.Package]
	var names []string
	if name := sub.Spec.StartingCSV; name != "" {
		_, inChannel := f.index.packages[sub.Spec.Package].Channels[f.channel].Entries[name]
		if !inChannel || bundles[name] == nil {
			return nil, notFound(sub, f, name)
		}
		names = []string{name}
	} else {
		names = f.chain.fresh
	}
	var out []*operator
	deprecated := ""
	for _, name := range names {
		switch facts := bundles[name]; {
		case facts == nil:
		case facts.deprecated:
			deprecated = name
		default:
			out = append(out, f.index.operator(f.channel, facts))
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
