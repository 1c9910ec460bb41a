package requirement

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// As in OLM, the field uuid is the UID of the object, or empty if the status is NotPresent.
func TestARequirementThatIsNotPresentHasNoUUID(t *testing.T) {
	d := operatorsv1alpha1.CRDDescription{Name: "things.example.com", Version: "v1"}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	for version, want := range map[string]string{"v1": "u", "v2": ""} {
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: true}}
		got := requireCRD(d, crd)
		require.Equal(t, want == "", got.Status == NotPresent)
		require.Equal(t, want, got.UUID, "only version %s is served", version)
	}
	require.Empty(t, requireCRD(d, nil).UUID)
	require.Empty(t, APIService(operatorsv1alpha1.APIServiceDescription{Group: "example.com", Version: "v1"}).UUID)
}
