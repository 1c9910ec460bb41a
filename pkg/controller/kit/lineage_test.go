package kit

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// indexes contains index functions by index and kind.
type indexes map[string]client.IndexerFunc

// IndexField implements client.FieldIndexer.
func (i indexes) IndexField(_ context.Context, obj client.Object, index string, extract client.IndexerFunc) error {
	i[fmt.Sprintf("%s %T", index, obj)] = extract
	return nil
}

func TestOnlyMarkedObjectsAreIndexed(t *testing.T) {
	all := indexes{}
	require.NoError(t, IndexLineage(t.Context(), all))
	require.Len(t, all, 8+6)
	for name, extract := range all {
		label := names.LabelLineage
		if strings.HasPrefix(name, OwnerNamespaceIndex) {
			label = names.LabelOwnerNamespace
		}
		require.Equal(t, []string{"m"}, extract(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "m"}}}))
		require.Empty(t, extract(&rbacv1.Role{}), "most objects of a cluster have neither label")
	}
}
