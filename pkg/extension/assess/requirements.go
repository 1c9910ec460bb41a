package assess

import (
	"context"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/resolver"
)

// Cluster describes the cluster that must meet the requirements of a bundle.
type Cluster struct {
	// Lookups finds the version of the API server and the kinds that it serves.
	Lookups *requirement.Lookups
	// Extensions are the ClusterExtensions.
	Extensions []olmv1.ClusterExtension
	// Catalogs contains the catalogs. They provide the properties of installed versions, and messages name the bundles in them.
	Catalogs []resolve.Catalog
	// Indexes caches the indexes of the catalogs.
	Indexes *resolver.Indexes
}

// IsInstalled reports whether a bundle is the installed one, according to the status.
func IsInstalled(ext *olmv1.ClusterExtension, b *catalog.Bundle) bool {
	is := ext.Status.Install
	return is != nil && b != nil && is.Bundle.Name == b.Name && is.Bundle.Version == b.Version
}

// Unmet describes the requirements of a ClusterExtension's bundle that the cluster does not meet: the version of Kubernetes,
// kinds, and other operators. csv is the bundle's ClusterServiceVersion; the CustomResourceDefinitions that it owns are part of
// the install. If Unmet returns an error, callers must retry.
func (c Cluster) Unmet(ctx context.Context, ext *olmv1.ClusterExtension, csv *operatorsv1alpha1.ClusterServiceVersion, b *catalog.Bundle) ([]string, error) {
	unmet, err := c.unmetRequirements(ctx, csv)
	if err != nil {
		return nil, err
	}
	dependencies, err := c.unmetDependencies(ctx, ext, b)
	return append(unmet, dependencies...), err
}

func (c Cluster) unmetRequirements(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) ([]string, error) {
	csv = csv.DeepCopy()
	csv.Spec.CustomResourceDefinitions.Owned = nil
	all, err := c.Lookups.Of(ctx, csv)
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

func describeRequirement(r operatorsv1alpha1.RequirementStatus) string {
	if r.Kind == operatorsv1alpha1.ClusterServiceVersionKind {
		return r.Message
	}
	return fmt.Sprintf("requires %s %q: %s", r.Kind, nameOf(r), r.Message)
}

func nameOf(r operatorsv1alpha1.RequirementStatus) string {
	if r.Name != "" {
		return r.Name
	}
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// unmetDependencies returns a description of the dependencies of the bundle that neither installed ClusterExtensions nor kinds
// of the cluster meet, or of a problem with the dependencies.
func (c Cluster) unmetDependencies(ctx context.Context, ext *olmv1.ClusterExtension, b *catalog.Bundle) ([]string, error) {
	var failed error
	serves := func(gvk schema.GroupVersionKind) bool {
		served, err := c.Lookups.Serves(ctx, gvk)
		if failed == nil {
			failed = err // one of thousands is enough
		}
		return served
	}
	cluster := resolver.Cluster{Installed: c.installed(ext), Serves: serves, Indexes: c.Indexes}
	for _, k := range c.Catalogs {
		if k.Snapshot != nil {
			cluster.Catalogs = append(cluster.Catalogs, k.Snapshot)
		}
	}
	unmet, err := cluster.Unmet(ctx, resolver.Full(), b)
	var limit *resolver.LimitError
	switch {
	case failed != nil:
		return nil, failed
	case errors.As(err, &limit), err != nil && ctx.Err() == nil:
		return []string{err.Error()}, nil
	case err != nil || len(unmet) == 0:
		return nil, err
	}
	return []string{resolver.DescribeUnmet(b.Name, unmet)}, nil
}

// installed returns the versions that the other ClusterExtensions have installed, with their properties from the catalogs.
func (c Cluster) installed(ext *olmv1.ClusterExtension) []resolver.Operator {
	var out []resolver.Operator
	for i := range c.Extensions {
		other := &c.Extensions[i]
		if other.Name == ext.Name || other.Status.Install == nil || other.Spec.Source.Catalog == nil {
			continue
		}
		is := other.Status.Install.Bundle
		one := resolver.Operator{Name: is.Name, Package: other.Spec.Source.Catalog.PackageName, Version: is.Version}
		for _, k := range c.Catalogs {
			if b := bundleIn(k.Snapshot, one.Package, is.Name); b != nil {
				one.Properties = b.Properties
				break
			}
		}
		out = append(out, one)
	}
	return out
}

func bundleIn(snap *catalog.Snapshot, pkg, name string) *catalog.Bundle {
	if snap == nil || snap.Packages[pkg] == nil {
		return nil
	}
	return snap.Packages[pkg].Bundles[name]
}

// Requirements describes what a bundle requires of the cluster, for users who must check this themselves.
func Requirements(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, b *catalog.Bundle) ([]string, error) {
	var out []string
	if least := csv.Spec.MinKubeVersion; least != "" {
		out = append(out, "requires Kubernetes "+least+" or later")
	}
	for _, d := range csv.Spec.CustomResourceDefinitions.Required {
		out = append(out, fmt.Sprintf("requires CustomResourceDefinition %q", d.Name))
	}
	for _, api := range csv.Spec.NativeAPIs {
		out = append(out, fmt.Sprintf("requires kind %s of %s", api.Kind, schema.GroupVersion{Group: api.Group, Version: api.Version}))
	}
	for _, api := range csv.Spec.APIServiceDefinitions.Required {
		out = append(out, fmt.Sprintf("requires APIService %q", requirement.APIService(api).Name))
	}
	unmet, err := resolver.Cluster{Indexes: &resolver.Indexes{}}.Unmet(ctx, resolver.Full(), b)
	for _, u := range unmet {
		out = append(out, "requires an operator "+u.Text)
	}
	return out, err
}
