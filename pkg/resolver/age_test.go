package resolver

import (
	"math"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Users who may only approve plans can set the generation of an old one, which would otherwise supersede all later ones.
func TestTheCreationTimeDeterminesTheAgeOfAPlan(t *testing.T) {
	t.Parallel()
	plan := func(created time.Time, generation int) *operatorsv1alpha1.InstallPlan {
		return &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}, Spec: operatorsv1alpha1.InstallPlanSpec{Generation: generation}}
	}
	now := time.Now()
	old, later := plan(now.Add(-time.Second), math.MaxInt), plan(now, 2)
	require.Equal(t, -1, CompareAge(old, later))
	require.Equal(t, 1, CompareAge(later, old))
	require.Equal(t, 1, CompareAge(plan(now, 3), later), "of the same second")
	require.Zero(t, CompareAge(later, later))
}
