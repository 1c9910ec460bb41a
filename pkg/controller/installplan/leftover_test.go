package installplan

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnObjectIsLeftOverIfAllItsOwnersWereDeleted(t *testing.T) {
	t.Parallel()
	existing := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "op.v1", UID: "new"}}
	csv, configMap := "ClusterServiceVersion", "ConfigMap"
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"no owner":                        {nil, ""},
		"a deleted CSV":                   {[]metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: csv, Name: "op.v1", UID: "old"}}, "op.v1"},
		"an existing CSV":                 {[]metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: csv, Name: "op.v1", UID: "new"}}, ""},
		"a deleted CSV and another owner": {[]metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: csv, Name: "op.v1", UID: "old"}, {APIVersion: "v1", Kind: configMap, Name: "c", UID: "c"}}, ""},
		"a CSV of another group":          {[]metav1.OwnerReference{{APIVersion: "example.com/v1alpha1", Kind: csv, Name: "op.v1", UID: "old"}}, ""},
		"a CSV of an invalid group":       {[]metav1.OwnerReference{{APIVersion: "a/b/c", Kind: csv, Name: "op.v1", UID: "old"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}}
			require.Equal(t, tc.want, deletedOwner(obj, []operatorsv1alpha1.ClusterServiceVersion{existing}))
		})
	}
}
