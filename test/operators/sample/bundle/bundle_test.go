package bundle

import (
	"io/fs"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

func TestCSVMatchesTheConstants(t *testing.T) {
	csv := read[operatorsv1alpha1.ClusterServiceVersion](t, "manifests/sample-operator.clusterserviceversion.yaml")

	require.Equal(t, CSV, csv.Name)
	require.Len(t, csv.Spec.InstallModes, 4)
	for _, mode := range csv.Spec.InstallModes {
		require.True(t, mode.Supported, mode.Type)
	}
	strategy := csv.Spec.InstallStrategy.StrategySpec
	require.Len(t, strategy.DeploymentSpecs, 1)
	pod := strategy.DeploymentSpecs[0].Spec.Template.Spec
	require.Equal(t, OperatorImage, pod.Containers[0].Image)
	require.Equal(t, strategy.Permissions[0].ServiceAccountName, pod.ServiceAccountName)

	metadata := read[struct{ Annotations map[string]string }](t, "metadata/annotations.yaml")
	require.Equal(t, Package, metadata.Annotations["operators.operatorframework.io.bundle.package.v1"])
	require.Equal(t, Channel, metadata.Annotations["operators.operatorframework.io.bundle.channels.v1"])
}

func TestCSVOwnsTheCRD(t *testing.T) {
	csv := read[operatorsv1alpha1.ClusterServiceVersion](t, "manifests/sample-operator.clusterserviceversion.yaml")
	crd := read[apiextensionsv1.CustomResourceDefinition](t, "manifests/sample.remit.dev_greetings.yaml")

	require.Len(t, csv.Spec.CustomResourceDefinitions.Owned, 1)
	owned := csv.Spec.CustomResourceDefinitions.Owned[0]
	require.Equal(t, crd.Name, owned.Name)
	require.Equal(t, crd.Spec.Names.Kind, owned.Kind)
	require.Equal(t, crd.Spec.Versions[0].Name, owned.Version)
	require.Equal(t, samplev1.GroupVersion.Group, crd.Spec.Group)
	require.Equal(t, samplev1.GroupVersion.Version, owned.Version)
}

func TestOperatorRequestsOnlyNamespacedPermissions(t *testing.T) {
	csv := read[operatorsv1alpha1.ClusterServiceVersion](t, "manifests/sample-operator.clusterserviceversion.yaml")

	strategy := csv.Spec.InstallStrategy.StrategySpec
	require.Empty(t, strategy.ClusterPermissions)
	require.Len(t, strategy.Permissions, 1)
	for _, rule := range strategy.Permissions[0].Rules {
		require.NotContains(t, rule.Verbs, rbacv1.VerbAll)
		require.NotContains(t, rule.Resources, rbacv1.ResourceAll)
		require.NotContains(t, rule.Verbs, "delete")
	}
}

func read[T any](t *testing.T, path string) *T {
	t.Helper()
	data, err := fs.ReadFile(FS(), path)
	require.NoError(t, err)
	parsed := new(T)
	require.NoError(t, yaml.UnmarshalStrict(data, parsed))
	return parsed
}
