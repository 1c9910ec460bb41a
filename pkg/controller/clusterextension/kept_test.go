package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/test/env/proofs"
)

// The garbage collector deletes only CustomResourceDefinitions with an owner reference together with their extension.
func TestDescribesHowLongCRDsAreKept(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{})
	ext := extension("a")
	for name, refs := range map[string][]metav1.OwnerReference{"owned.x": {u.owner(ext).Reference()}, "kept.x": nil} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: refs}}
		proofs.Mark(crd, u.owner(ext))
		require.NoError(t, u.Client.Create(t.Context(), crd))
	}
	got, err := u.begin(ext).aboutKeptCRDs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{
		"CustomResourceDefinitions of earlier versions are kept until the ClusterExtension is deleted: owned.x",
		"CustomResourceDefinitions that this version does not have are kept, even when the ClusterExtension is deleted: kept.x",
	}, got)
}
