package resolver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A tenant determines the number of catalogs and the number of requirements that are searched in each.
func TestSearchesInAllCatalogsHaveOneLimit(t *testing.T) {
	s := &searches{}
	for i := range 48 {
		x := &index{key: types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}}
		for j := range maxRemembered / 4 {
			s.add(x, fmt.Sprint(j), hits{})
		}
		_, ok := s.get(x, fmt.Sprint(maxRemembered/4-1))
		require.True(t, ok)
		require.LessOrEqual(t, len(s.all), maxRemembered)
	}
	s.forget(types.NamespacedName{Namespace: "ns", Name: "47"})
	for of := range s.all {
		require.NotEqual(t, "47", of.index.key.Name)
	}
}

// A tenant can have each version in thousands of channels, and requirements that take several times the memory of their text. Of a
// tenant's catalogs, the operators and requirements are therefore kept only for one resolution.
func TestOperatorsAndNeedsOfTenantsAreNotKept(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0", "b.v1.0.0 stable,fast")
	for global, kept := range map[string]bool{s.Key.Namespace: true, "other": false} {
		in := world(s)
		in.GlobalCatalogNamespace = global
		in.resolve(subjects("s ns/cat/a/stable"))
		x := in.Indexes.get(newMeter(t.Context(), in, Full()), s)
		require.Len(t, x.chains, 3)
		for _, c := range x.chains {
			require.Equal(t, kept, c.operators != nil, global)
		}
		require.Equal(t, kept, x.bundles["a"]["a.v1.0.0"].needs != nil, global)
	}
}

// What is searched in the catalogs of a namespace is not kept after its resolution.
func TestSearchesOfTenantsAreNotKept(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0", "b.v1.0.0 stable")
	for global, kept := range map[string]int{s.Key.Namespace: 1, "other": 0} {
		in := world(s)
		in.GlobalCatalogNamespace = global
		in.resolve(subjects("s ns/cat/a/stable"))
		require.Len(t, in.Indexes.searches.all, kept, global)
		newer := *s
		newer.Digest = "new"
		in.Indexes.get(newMeter(t.Context(), in, Full()), &newer)
		require.Empty(t, in.Indexes.searches.all, "results for replaced content are dropped")
	}
}
