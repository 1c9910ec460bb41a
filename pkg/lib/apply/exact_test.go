package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestDeletesOnlyWhatIsUnchanged(t *testing.T) {
	c := fake.NewFakeClient()
	read := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	require.NoError(t, c.Create(t.Context(), read))
	changed := read.DeepCopy()
	changed.Data = map[string]string{"a": "b"}
	require.NoError(t, c.Update(t.Context(), changed))
	require.True(t, apierrors.IsConflict(DeleteUnchanged(t.Context(), c, read)))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(read), read))
	require.NoError(t, DeleteUnchanged(t.Context(), c, read))
	require.NoError(t, DeleteUnchanged(t.Context(), c, read), "the object no longer exists")
}
