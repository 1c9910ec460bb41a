package requirement

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// As in OLM, the field uuid is the UID of the object, or empty if the object does not exist.
func TestOnlyObjectsThatExistHaveAUUID(t *testing.T) {
	d := operatorsv1alpha1.CRDDescription{Name: "things.example.com", Version: "v1"}
	require.Empty(t, requireCRD(d, nil).UUID)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	require.Equal(t, "u", requireCRD(d, crd).UUID)
	require.Empty(t, APIService(operatorsv1alpha1.APIServiceDescription{Group: "example.com", Version: "v1"}).UUID)
}
