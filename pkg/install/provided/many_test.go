package provided

import (
	"fmt"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/bundle"
)

// listing returns a ClusterServiceVersion of a namespace that owns things.example.com and n-1 other APIs.
func listing(namespace string, n int) *operatorsv1alpha1.ClusterServiceVersion {
	csv := csvIn(namespace, "things.example.com")
	for i := range n - 1 {
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned,
			operatorsv1alpha1.CRDDescription{Name: fmt.Sprintf("%s%d.example.com", namespace, i), Version: "v1", Kind: fmt.Sprint(namespace, i)})
	}
	return csv
}

// Regression test: an index with 4,000 keys for a ClusterServiceVersion was updated for 20 ms with each change of a label, and nothing could
// read the cache meanwhile.
func TestAVersionWithManyAPIsIsIndexedOnce(t *testing.T) {
	for _, keyOf := range []func(API) string{API.String, API.Resource} {
		require.Len(t, keys(listing("mine", maxIndexed), keyOf), maxIndexed)
		require.Equal(t, []string{manyAPIs}, keys(listing("mine", maxIndexed+1), keyOf))
	}
}

func TestAVersionWithManyAPIsHasConflicts(t *testing.T) {
	for _, row := range []struct{ mine, theirs int }{{1, maxIndexed + 1}, {maxIndexed + 1, 1}, {maxIndexed + 1, maxIndexed + 1}} {
		s := newScene(t)
		s.mine, s.theirs = listing("mine", row.mine), listing("theirs", row.theirs)
		s.Put(s.mine, s.theirs)
		require.True(t, s.conflict(t), row)

		s.mine.Status.Phase = operatorsv1alpha1.CSVPhaseSucceeded
		s.Put(s.mine, deploymentIn("mine", "shared", 0))
		require.False(t, s.conflict(t), "an operator that serves the namespace keeps its APIs: %v", row)
	}
	s := newScene(t)
	other := listing("theirs", maxIndexed+2)
	other.Spec.CustomResourceDefinitions.Owned = other.Spec.CustomResourceDefinitions.Owned[1:]
	s.Put(other)
	require.False(t, s.conflict(t), "they own other APIs")
}

func TestOnlySomeAPIsOfOtherTenantsAreExamined(t *testing.T) {
	var all []*operatorsv1alpha1.ClusterServiceVersion
	csv := listing("theirs", bundle.MaxOwned)
	for i := range maxExamined/bundle.MaxOwned + 2 {
		one := *csv
		one.Name, one.CreationTimestamp = fmt.Sprint(i), metav1.NewTime(time.Unix(int64(1000-i), 0))
		all = append(all, &one)
	}
	oldest := all[len(all)-1]
	found := examine(all, map[string]bool{"Thing.v1.example.com": true})
	require.Len(t, found, maxExamined/bundle.MaxOwned)
	require.Same(t, oldest, found[0])
	require.Empty(t, examine(all, map[string]bool{"Other.v1.example.com": true}))
}
