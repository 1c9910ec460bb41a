package resolver

import (
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
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

// candidate is the bundle that a Subscription asks for.
type candidate struct {
	snapshot *catalog.Snapshot
	bundle   *catalog.Bundle
	channel  string
}

// sees says whether a catalog may be used from the namespace: its own and the global ones may.
func (in Input) sees(catalog types.NamespacedName) bool {
	return catalog.Namespace == in.Namespace || catalog.Namespace == in.GlobalCatalogNamespace
}

// choose finds the bundle that a Subscription with nothing installed asks for: startingCSV if it
// names one, else the head of its channel, which defaults to the package's.
func choose(sub *operatorsv1alpha1.Subscription, in Input) (*candidate, error) {
	key := types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}
	if !in.sees(key) {
		return nil, unsatisfiable(sub, "catalog %s in namespace %s is not visible from namespace %s: only catalogs of the "+
			"namespace itself and of %s are", key.Name, key.Namespace, sub.Namespace, in.GlobalCatalogNamespace)
	}
	snapshot, ok := in.Catalogs.Get(key)
	if !ok {
		return nil, &Problem{Reason: ErrorPreventedResolution, Message: fmt.Sprintf(
			"error using catalogsource %s: its content is not available", key)}
	}
	pkg, ok := snapshot.Packages[sub.Spec.Package]
	if !ok {
		return nil, unsatisfiable(sub, "no operators found in package %s in the catalog referenced by subscription %s",
			sub.Spec.Package, sub.Name)
	}
	name := sub.Spec.Channel
	if name == "" {
		name = pkg.DefaultChannel
	}
	channel, ok := pkg.Channels[name]
	switch {
	case name == "" && !ok:
		return nil, unsatisfiable(sub, "package %s in the catalog referenced by subscription %s has no default channel: name one in "+
			"spec.channel (its channels are %s)", pkg.Name, sub.Name, strings.Join(pkg.ChannelNames(), ", "))
	case !ok:
		return nil, unsatisfiable(sub, "no operators found in channel %s of package %s in the catalog referenced by subscription %s "+
			"(its channels are %s)", name, pkg.Name, sub.Name, strings.Join(pkg.ChannelNames(), ", "))
	}
	return pick(sub, snapshot, pkg, channel)
}

func pick(sub *operatorsv1alpha1.Subscription, snapshot *catalog.Snapshot, pkg *catalog.Package, channel *catalog.Channel) (*candidate, error) {
	name := sub.Spec.StartingCSV
	if name == "" {
		head, err := channel.Head()
		if err != nil {
			return nil, unsatisfiable(sub, "package %s: %s", pkg.Name, err)
		}
		name = head.Name
	}
	_, inChannel := channel.Entries[name]
	b, inPackage := pkg.Bundles[name]
	if !inChannel || !inPackage {
		return nil, unsatisfiable(sub, "no operators found with name %s in channel %s of package %s in the catalog referenced by subscription %s",
			name, channel.Name, pkg.Name, sub.Name)
	}
	return &candidate{snapshot: snapshot, bundle: b, channel: channel.Name}, nil
}

// Head returns the newest version of the Subscription's channel; "" where that cannot be told.
func Head(sub *operatorsv1alpha1.Subscription, in Input) string {
	latest := sub.DeepCopy()
	latest.Spec.StartingCSV = ""
	c, err := choose(latest, in)
	if err != nil {
		return ""
	}
	return c.bundle.Name
}
