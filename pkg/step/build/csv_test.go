package build

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
)

const sloppy = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: sloppy.v1}
spec:
  customresourcedefinitions:
    owned:
    - {name: as.example.com, version: v1, kind: A, resources: [{kind: Pod, version: v1}]}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: sloppy
        spec:
          selector: {matchLabels: {a: b}}
          template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
`

func TestACSVIsEncodedByItsType(t *testing.T) {
	b, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(sloppy)}})
	require.NoError(t, err)

	obj, _, err := csvObject(b, Scope{Namespace: "t1", Targets: []string{"t1"}})
	require.NoError(t, err)
	owned, _, err := unstructured.NestedSlice(obj.Object, "spec", "customresourcedefinitions", "owned")
	require.NoError(t, err)
	require.Equal(t, []any{map[string]any{"name": "", "kind": "Pod", "version": "v1"}}, owned[0].(map[string]any)["resources"])
	require.NotContains(t, obj.Object, "status")
	require.Equal(t, map[string]any{"name": "sloppy.v1", "namespace": "t1"}, obj.Object["metadata"])
}

func TestACSVHasTheAnnotationsOfItsOperatorGroup(t *testing.T) {
	b, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(sloppy)}})
	require.NoError(t, err)
	obj, _, err := csvObject(b, Scope{Namespace: "t1", Group: "team", Targets: []string{"t2", "t1"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"olm.operatorGroup": "team", "olm.operatorNamespace": "t1", "olm.targetNamespaces": "t1,t2"}, obj.GetAnnotations())
}
