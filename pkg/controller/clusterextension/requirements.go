package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/resolver"
)

// checkRequirements checks what the bundle requires of the cluster, unless its version is already installed: the version of
// Kubernetes, kinds, and other operators.
func checkRequirements(ctx context.Context, s *run) (outcome, error) {
	if s.resolved.Bundle == nil || s.isInstalled() {
		return proceed(), nil
	}
	unmet, err := s.unmetRequirements(ctx)
	if err != nil {
		return outcome{}, err
	}
	dependencies, err := s.unmetDependencies(ctx)
	if err != nil {
		return outcome{}, err
	}
	if unmet = append(unmet, dependencies...); len(unmet) > 0 {
		s.awaitsKinds = true
		return blocked(s.aboutBundle(errors.New(strings.Join(unmet, "; ")))), nil
	}
	return proceed(), nil
}

// unmetRequirements returns descriptions of requirements of the bundle's CSV that are not met. The
// CustomResourceDefinitions that it owns are part of the install.
func (s *run) unmetRequirements(ctx context.Context) ([]string, error) {
	csv := s.rendered.CSV.DeepCopy()
	csv.Spec.CustomResourceDefinitions.Owned = nil
	all, err := s.world().Of(ctx, csv)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range all {
		if r.Status != requirement.Present {
			out = append(out, describeRequirement(r))
		}
	}
	return out, nil
}

func (s *run) world() requirement.World {
	return requirement.World{Reader: s.Client, Mapper: s.Client.RESTMapper(), ServerVersion: s.ServerVersion, Unserved: s.unserved}
}

func describeRequirement(r operatorsv1alpha1.RequirementStatus) string {
	if r.Kind == operatorsv1alpha1.ClusterServiceVersionKind {
		return r.Message
	}
	name := r.Name
	if name == "" {
		name = schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
	}
	return fmt.Sprintf("requires %s %q: %s", r.Kind, name, r.Message)
}

// unmetDependencies returns a description of the dependencies of the bundle that neither installed ClusterExtensions nor
// kinds of the cluster meet, or of what is wrong with the dependencies. The error is one that a retry may resolve.
func (s *run) unmetDependencies(ctx context.Context) ([]string, error) {
	installed, err := s.installedOperators(ctx)
	if err != nil {
		return nil, err
	}
	catalogs, err := s.catalogs(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	serves := func(gvk schema.GroupVersionKind) bool {
		served, err := s.lookups.Serves(ctx, gvk)
		failed = errors.Join(failed, err)
		return served
	}
	cluster := resolver.Cluster{Installed: installed, Serves: serves, Indexes: s.indexes}
	for _, c := range catalogs {
		if c.Snapshot != nil {
			cluster.Catalogs = append(cluster.Catalogs, c.Snapshot)
		}
	}
	unmet, err := cluster.Unmet(ctx, resolver.Full(), s.resolved.Bundle)
	var limit *resolver.LimitError
	switch {
	case failed != nil:
		return nil, failed
	case errors.As(err, &limit), err != nil && ctx.Err() == nil:
		return []string{err.Error()}, nil
	case err != nil || len(unmet) == 0:
		return nil, err
	}
	return []string{resolver.DescribeUnmet(s.resolved.Bundle.Name, unmet)}, nil
}

// installedOperators returns the versions that other ClusterExtensions have installed, with the properties that the catalogs
// know.
func (s *run) installedOperators(ctx context.Context) ([]resolver.Operator, error) {
	list := &olmv1.ClusterExtensionList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterExtensions: %w", err)
	}
	catalogs, err := s.catalogs(ctx)
	if err != nil {
		return nil, err
	}
	var out []resolver.Operator
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == s.ext.UID || other.Status.Install == nil || other.Spec.Source.Catalog == nil {
			continue
		}
		is := other.Status.Install.Bundle
		one := resolver.Operator{Name: is.Name, Package: other.Spec.Source.Catalog.PackageName, Version: is.Version}
		for _, c := range catalogs {
			if b := bundleIn(c.Snapshot, one.Package, is.Name); b != nil {
				one.Properties = b.Properties
				break
			}
		}
		out = append(out, one)
	}
	return out, nil
}

func bundleIn(snap *catalog.Snapshot, pkg, name string) *catalog.Bundle {
	if snap == nil || snap.Packages[pkg] == nil {
		return nil
	}
	return snap.Packages[pkg].Bundles[name]
}
