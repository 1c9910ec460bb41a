package greeter

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

func TestConfigMapContainsTheMessage(t *testing.T) {
	for _, tc := range []struct{ name, message, want string }{
		{name: "the greeting's message", message: "hi", want: "hi"},
		{name: "the default message for a greeting without one", want: "hello"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			greeting := given(tc.message, 1)
			configMap := applied[corev1.ConfigMap](t, desiredConfigMap(greeting, "hello"))

			require.Equal(t, "demo-greeting", configMap.Name)
			require.Equal(t, "team", configMap.Namespace)
			require.Equal(t, map[string]string{KeyMessage: tc.want}, configMap.Data)
			requireOwnedBy(t, greeting, configMap)
		})
	}
}

func TestDeploymentRunsTheGreeters(t *testing.T) {
	greeting := given("hi", 3)
	deployment := applied[appsv1.Deployment](t, desiredDeployment(greeting))

	require.Equal(t, "demo-greeter", deployment.Name)
	require.EqualValues(t, 3, *deployment.Spec.Replicas)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	container := deployment.Spec.Template.Spec.Containers[0]
	require.Equal(t, Image, container.Image)
	require.Equal(t, "demo-greeting", container.Env[0].ValueFrom.ConfigMapKeyRef.Name)
	requireOwnedBy(t, greeting, deployment)
}

func given(message string, replicas int32) *samplev1.Greeting {
	return &samplev1.Greeting{
		TypeMeta:   metav1.TypeMeta{APIVersion: samplev1.GroupVersion.String(), Kind: "Greeting"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo", UID: "u1", Generation: 2},
		Spec:       samplev1.GreetingSpec{Message: message, Replicas: replicas},
	}
}

// applied converts an apply configuration to an object.
func applied[T any](t *testing.T, configuration any) *T {
	t.Helper()
	data, err := json.Marshal(configuration)
	require.NoError(t, err)
	obj := new(T)
	require.NoError(t, json.Unmarshal(data, obj))
	return obj
}

func requireOwnedBy(t *testing.T, greeting *samplev1.Greeting, obj metav1.Object) {
	t.Helper()
	require.True(t, metav1.IsControlledBy(obj, greeting))
	require.Nil(t, obj.GetOwnerReferences()[0].BlockOwnerDeletion, "blockOwnerDeletion requires a permission that the operator does not have")
}
