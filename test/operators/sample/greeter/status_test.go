package greeter

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

func TestReadyFollowsTheDeployment(t *testing.T) {
	for _, tc := range []struct {
		name       string
		deployment *appsv1.Deployment
		want       metav1.ConditionStatus
		wantReason string
	}{
		{name: "not observed yet", deployment: &appsv1.Deployment{},
			want: metav1.ConditionFalse, wantReason: samplev1.ReasonGreetersStarting},
		{name: "some available", deployment: deployment(1, 1, 1),
			want: metav1.ConditionFalse, wantReason: samplev1.ReasonGreetersStarting},
		{name: "all available, for an earlier spec", deployment: deployment(2, 1, 2),
			want: metav1.ConditionFalse, wantReason: samplev1.ReasonGreetersStarting},
		{name: "all available", deployment: deployment(2, 2, 2),
			want: metav1.ConditionTrue, wantReason: samplev1.ReasonGreeting},
	} {
		t.Run(tc.name, func(t *testing.T) {
			greeting := given("hi", 2)
			setStatus(greeting, tc.deployment)

			ready := meta.FindStatusCondition(greeting.Status.Conditions, samplev1.ConditionReady)
			require.NotNil(t, ready)
			require.Equal(t, tc.want, ready.Status)
			require.Equal(t, tc.wantReason, ready.Reason)
			require.Equal(t, greeting.Generation, greeting.Status.ObservedGeneration)
			require.Equal(t, "demo-greeting", greeting.Status.ConfigMapName)
		})
	}
}

func TestStatusOfNoGreetersIsReady(t *testing.T) {
	greeting := given("hi", 0)
	setStatus(greeting, deployment(1, 1, 0))
	require.True(t, isReady(greeting))
}

func deployment(generation, observed int64, available int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: generation},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: observed, AvailableReplicas: available},
	}
}
