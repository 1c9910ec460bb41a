package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestRemediesNameLabelsThatExistAndKeepDefinitions(t *testing.T) {
	v0 := map[string]string{"olm.owner": "a.v1", "olm.owner.namespace": "ns", "olm.operatorframework.io/owner-name": "b"}
	v1 := map[string]string{"olm.owner": "a.v1", "olm.operatorframework.io/owner-name": "b"}
	for _, row := range []struct {
		labels  map[string]string
		cm, crd string
	}{
		{nil, "delete it if nothing else needs it", "its custom resources would be deleted with it, so keep it, and find out what else installed it"},
		{v0, "delete it if nothing else needs it, or uninstall the operator that its labels olm.owner and olm.owner.namespace identify",
			"its custom resources would be deleted with it, so keep it, and use the operator that its labels olm.owner and olm.owner.namespace identify"},
		{v1, "delete it if nothing else needs it, or uninstall the ClusterExtension that its label olm.operatorframework.io/owner-name identifies",
			"its custom resources would be deleted with it, so keep it, and use the ClusterExtension that its label olm.operatorframework.io/owner-name identifies"},
	} {
		cm, crd := &corev1.ConfigMap{}, &apiextensionsv1.CustomResourceDefinition{}
		cm.Labels, crd.Labels = row.labels, row.labels
		require.Equal(t, row.cm, remedyFor(cm))
		require.Equal(t, row.crd, remedyFor(crd))
	}
}
