package bundlev2

import (
	"io/fs"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/echo"
)

func TestCSVMatchesTheConstants(t *testing.T) {
	csv := read[operatorsv1alpha1.ClusterServiceVersion](t, "manifests/sample-operator.clusterserviceversion.yaml")
	require.Equal(t, CSV, csv.Name)
	require.Equal(t, bundle.CSV, csv.Spec.Replaces)
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		require.Equal(t, OperatorImage, d.Spec.Template.Spec.Containers[0].Image)
	}
	webhooks, apis := hooks.Validate(csv, nil)
	require.NoError(t, webhooks)
	require.NoError(t, apis)
	require.Len(t, csv.Spec.WebhookDefinitions, 3)
	require.Equal(t, echo.Group, csv.Spec.APIServiceDefinitions.Owned[0].Group)
}

func TestTheCRDKeepsTheFirstVersion(t *testing.T) {
	crd := read[apiextensionsv1.CustomResourceDefinition](t, "manifests/sample.remit.dev_greetings.yaml")
	require.Len(t, crd.Spec.Versions, 2)
	require.Equal(t, "v1", crd.Spec.Versions[0].Name)
	require.False(t, crd.Spec.Versions[0].Storage)
	require.True(t, crd.Spec.Versions[1].Storage)
	require.Nil(t, crd.Spec.Conversion)
}

func read[T any](t *testing.T, path string) *T {
	t.Helper()
	data, err := fs.ReadFile(FS(), path)
	require.NoError(t, err)
	parsed := new(T)
	require.NoError(t, yaml.UnmarshalStrict(data, parsed))
	return parsed
}
