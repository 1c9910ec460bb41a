package provided

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
)

func TestTheAnnotationListsProvidedAPIs(t *testing.T) {
	a, b := csvIn("a", "things.example.com"), csvIn("b", "things.example.com")
	b.Spec.CustomResourceDefinitions.Owned = append(b.Spec.CustomResourceDefinitions.Owned,
		operatorsv1alpha1.CRDDescription{Name: "apples.example.com", Version: "v1beta1", Kind: "Apple"},
		operatorsv1alpha1.CRDDescription{Name: "invalid", Version: "v1", Kind: "Invalid"})
	b.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Name: "quotes", Group: "prices.example.com", Version: "v1", Kind: "Quote"}}
	apis := Union([]operatorsv1alpha1.ClusterServiceVersion{*a, *b})
	require.Equal(t, "Apple.v1beta1.example.com,Quote.v1.prices.example.com,Thing.v1.example.com", Annotation(apis))
	require.Empty(t, Annotation(nil))
}

func TestAStaticGroupAllowsWhatItsAnnotationLists(t *testing.T) {
	apis := Of(csvIn("a", "things.example.com"))
	require.True(t, Allows("Apple.v1.example.com, Thing.v1.example.com", apis))
	require.False(t, Allows("Thing.v2.example.com", apis))
	require.False(t, Allows("", apis))
	require.True(t, Allows("", nil))
}
