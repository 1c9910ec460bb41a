package extension

import (
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/property"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/resolver"
)

// offer contains a bundle and the catalogs from which it was resolved. If these contain only one package of the ClusterCatalogs,
// rest is set, and reads the other packages.
type offer struct {
	catalogs []resolve.Catalog
	bundle   *catalog.Bundle
	rest     *clusterCatalogs
}

// findUnmet sets Unmet to the requirements that the controller would report as unmet. Without a cluster, it adds notes that list
// what the bundle requires.
func (i *Install) findUnmet(ctx context.Context, c client.Client, from Source, offered offer) error {
	if c == nil {
		required, err := assess.Requirements(ctx, i.Bundle.CSV, offered.bundle)
		if err != nil {
			i.Unmet = append(i.Unmet, err.Error())
		}
		for _, text := range required {
			i.Notes = append(i.Notes, "not checked without a cluster: the bundle "+text)
		}
		return nil
	}
	if assess.IsInstalled(i.Extension, offered.bundle) {
		return nil
	}
	unmet, err := i.unmet(ctx, c, from, offered)
	if apierrors.IsForbidden(err) {
		i.Notes = append(i.Notes, "cannot check whether the cluster meets the requirements of the bundle: "+err.Error())
		return nil
	}
	i.Unmet = append(i.Unmet, unmet...)
	return err
}

func (i *Install) unmet(ctx context.Context, c client.Client, from Source, offered offer) ([]string, error) {
	var list olmv1.ClusterExtensionList
	if err := c.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list ClusterExtensions: %w", err)
	}
	world := requirement.World{
		Reader: c, Mapper: c.RESTMapper(), Unserved: kinds.NewUnserved(clock.RealClock{}),
		ServerVersion: func() (string, error) { return from.Cluster.ServerVersion(from.ErrOut) },
	}
	cluster := assess.Cluster{Lookups: world.Lookups(), Extensions: list.Items, Catalogs: offered.catalogs, Indexes: &resolver.Indexes{}}
	if offered.rest == nil || !isConstrained(offered.bundle) {
		unmet, err := cluster.Unmet(ctx, i.Extension, i.Rendered.CSV, offered.bundle)
		if err != nil || len(unmet) == 0 || offered.rest == nil {
			return unmet, err
		}
	}
	var err error
	if cluster.Catalogs, err = offered.rest.allPackages(ctx, offered.catalogs); err != nil {
		return nil, err
	}
	cluster.Indexes = &resolver.Indexes{}
	return cluster.Unmet(ctx, i.Extension, i.Rendered.CSV, offered.bundle)
}

// isConstrained reports whether a bundle has an olm.constraint. For such a bundle, the other packages must be read first,
// because the properties of installed operators can violate a constraint with "not" or a CEL rule. For other types of
// requirements, additional properties can only help to meet them.
func isConstrained(b *catalog.Bundle) bool {
	return slices.ContainsFunc(b.Properties, func(p catalog.Property) bool { return p.Type == property.TypeConstraint })
}

// allPackages returns the catalogs with all of their packages, including the catalogs that the ClusterExtension does not select.
func (r *clusterCatalogs) allPackages(ctx context.Context, all []resolve.Catalog) ([]resolve.Catalog, error) {
	out := slices.Clone(all)
	for i := range out {
		k := &out[i]
		if !slices.Contains(r.served, k.Name) {
			continue
		}
		lines, err := r.get(ctx, k.Name, "api/v1/all", nil)
		if err == nil {
			k.Snapshot, err = loaded(ctx, k.Name, lines)
		}
		if err != nil {
			return nil, fmt.Errorf("read the content of ClusterCatalog %q: %w", k.Name, err)
		}
	}
	return out, nil
}
