package status

import (
	"context"
	"errors"
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// requiring returns a ClusterServiceVersion whose status refers to Secrets. Tenants can write that status.
func requiring(namespace string, secrets ...string) operatorsv1alpha1.ClusterServiceVersion {
	csv := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: objectMeta("demo.v1")}
	csv.Namespace = namespace
	for _, name := range secrets {
		csv.Status.RequirementStatus = append(csv.Status.RequirementStatus, operatorsv1alpha1.RequirementStatus{Kind: "Secret", Version: "v1", Name: name})
	}
	return csv
}

// A report about all namespaces reads objects whose names tenants choose.
func TestATenantCannotHideDeletedObjectsOfAnother(t *testing.T) {
	many := make([]string, 2*maxCompared)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	for name, row := range map[string]struct {
		secrets []string
		note    string
	}{
		"an invalid name": {[]string{"a/b"}, "cannot determine whether objects were deleted: get Secret ns/a/b: invalid resource name"},
		"too many names":  {many, "only the first 1000 objects were read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := givenWorld(t, func(w *world) {
				other := group("acct", usable)
				other.Namespace = "other"
				w.groups = append(w.groups, other)
				w.csvs = []operatorsv1alpha1.ClusterServiceVersion{requiring("ns", row.secrets...), requiring("other", "gone")}
			})
			c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if key.Name == "a/b" { // client-go rejects such names
						return errors.New("invalid resource name")
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			r := newReport(t.Context(), w, names.DefaultNamespace)
			require.NoError(t, w.fillDeleted(t.Context(), c, r))
			require.Len(t, r.OperatorGroups, 2)
			require.Contains(t, fmt.Sprint(r.OperatorGroups[0].Notes), row.note)
			require.Contains(t, fmt.Sprint(r.OperatorGroups[1].Blocked), "Secret other/gone was deleted")
		})
	}
}
