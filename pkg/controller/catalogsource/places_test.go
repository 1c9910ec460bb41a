package catalogsource

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

func TestLimitsConnectionsOfANamespace(t *testing.T) {
	woken := map[types.NamespacedName]bool{}
	c := newConnections(newBudget("global"), func(key types.NamespacedName) { woken[key] = true })
	at := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}
	}
	connect := func(key types.NamespacedName, target string) error {
		_, _, err := c.ensure(key, target, target)
		return err
	}
	t.Cleanup(func() {
		for key := range c.byKey {
			c.drop(key)
		}
	})
	for n := range maxConnections {
		require.NoError(t, connect(at("t1", n), "10.0.0.1:1"))
	}
	for n := range 10 {
		state, _, err := c.ensure(at("t1", maxConnections+n), "10.0.0.1:1", "10.0.0.1:1")
		require.EqualError(t, err, "namespace t1 already has connections to 50 registries, which is the limit; this CatalogSource will connect after another CatalogSource in the namespace is deleted")
		require.Equal(t, connectivity.TransientFailure, state)
	}
	require.Len(t, c.byKey, maxConnections, "waiting CatalogSources use no resources")
	require.NoError(t, connect(at("t2", 0), "10.0.0.1:1"), "other namespaces have their own limit")
	for n := range maxConnections + 1 {
		require.NoError(t, connect(at("global", n), "10.0.0.1:1"))
	}
	require.NoError(t, connect(at("t1", 3), "10.0.0.2:1"), "a new target uses the same place")
	require.Error(t, connect(at("t1", maxConnections), "10.0.0.1:1"))

	clear(woken)
	c.drop(at("t1", 0))
	require.Len(t, woken, 1, "one CatalogSource is woken for one place")
	for key := range maps.Clone(woken) {
		c.drop(key) // the woken CatalogSource is deleted
	}
	require.Len(t, woken, 2, "then the next CatalogSource is woken")
	c.drop(at("t1", 1))
	clear(woken)
	for n := range 10 {
		_ = connect(at("t1", maxConnections+n), "10.0.0.1:1")
	}
	require.NotEmpty(t, woken, "with two free places, the first woken CatalogSource wakes another")
	require.Len(t, c.places.byNamespace["t1"].taken, maxConnections)
	for key := range c.byKey {
		c.drop(key)
	}
	for n := range 10 {
		c.drop(at("t1", maxConnections+n))
	}
	require.Empty(t, c.places.byNamespace)
}

func TestLimitsCatalogsInImagesOfANamespace(t *testing.T) {
	woken := map[types.NamespacedName]bool{}
	i := newImages(nil, nil, newBudget("global"), func(key types.NamespacedName) { woken[key] = true }, clock.RealClock{})
	at := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}
	}
	spec := imageSpec{image: "registry.example.com/catalog:v1"}
	for n := range maxImages {
		require.NoError(t, i.ensure(at("t1", n), spec).err)
	}
	for n := range 10 {
		view := i.ensure(at("t1", maxImages+n), spec)
		require.EqualError(t, view.err, "namespace t1 already has 50 catalogs that are read from images, which is the limit; this CatalogSource will be loaded after another CatalogSource in the namespace is deleted")
		require.Equal(t, connectivity.TransientFailure, view.state)
	}
	require.Len(t, i.byKey, maxImages, "waiting CatalogSources use no resources")
	for n := range maxImages + 1 {
		require.NoError(t, i.ensure(at("global", n), spec).err)
	}
	require.NoError(t, i.ensure(at("t1", 3), imageSpec{image: "registry.example.com/catalog:v2"}).err, "a new image uses the same place")
	i.drop(at("t1", 0))
	require.Len(t, woken, 1, "one CatalogSource is woken for one place")
	for key := range woken {
		require.NoError(t, i.ensure(key, spec).err)
	}
	for n := range maxImages + 10 {
		i.drop(at("t1", n))
	}
	require.NotContains(t, i.places.byNamespace, "t1")
}

// A ConfigMap that is not watched is read at intervals, so the number of those of a tenant's namespace is limited.
func TestLimitsCatalogsInConfigMapsOfANamespace(t *testing.T) {
	var woken []types.NamespacedName
	f := newConfigMapWatches(nil, "global", func(key types.NamespacedName) { woken = append(woken, key) })
	at := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}
	}
	for n := range maxConfigMaps {
		require.NoError(t, f.take(at("t1", n)))
		require.NoError(t, f.take(at("t1", n)), "a CatalogSource keeps its place")
	}
	require.EqualError(t, f.take(at("t1", maxConfigMaps)),
		"namespace t1 already has 50 catalogs in ConfigMaps, which is the limit; this CatalogSource will be loaded after another CatalogSource in the namespace is deleted")
	require.NoError(t, f.take(at("t2", 0)))
	for n := range maxConfigMaps + 1 {
		require.NoError(t, f.take(at("global", n)))
	}
	require.Empty(t, woken)
	f.drop(at("t1", 3))
	require.Equal(t, []types.NamespacedName{at("t1", maxConfigMaps)}, woken)
	require.NoError(t, f.take(at("t1", maxConfigMaps)))
}
