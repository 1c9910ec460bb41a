package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/proofs"
)

// An identity that has lost permissions cannot write its bindings again, so they keep the shorter mark of an earlier version
// (docs/adr/0070). They are compared with the identity like all others.
func TestFindsBindingsWithShorterMarks(t *testing.T) {
	t.Parallel()
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid"}}
	keys := proofs.Keys()
	owner := assess.Owner(ext, "demo.v1")
	owner.Proofs = keys
	newer := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "newer", UID: "newer"}}
	proofs.Mark(newer, owner)
	older, forged := newer.DeepCopy(), newer.DeepCopy()
	older.Name, older.UID = "older", "older"
	older.Labels[names.LabelLineage] = owner.ShortMark()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(older)
	require.NoError(t, err)
	signed := &unstructured.Unstructured{Object: content}
	signed.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
	require.NoError(t, keys.Sign(signed, owner.ShortMark(), signed))
	older.Annotations = signed.GetAnnotations()
	forged.Name, forged.UID = "forged", "forged"
	forged.Labels[names.LabelLineage] = owner.ShortMark()

	s := &run{Reconciler: &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithObjects(newer, older, forged).Build(), Proofs: keys}}, ext: ext, owner: owner}
	found, err := s.rbacObjects(t.Context())
	require.NoError(t, err)
	var got []string
	for _, obj := range found {
		got = append(got, obj.GetName())
	}
	require.ElementsMatch(t, []string{"newer", "older"}, got)
}
