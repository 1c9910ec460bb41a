package assess_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/resolver"
)

// silent is a reader that fails.
type silent struct{ client.Reader }

func (silent) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}

// A bundle can require thousands of kinds, and the error for each would contain all errors before.
func TestReportsOneFailureOfManyLookups(t *testing.T) {
	b := &catalog.Bundle{Name: "op.v1", Package: "op", Version: "1.0.0"}
	for i := range 20 {
		b.Properties = append(b.Properties, catalog.Property{Type: "olm.gvk.required",
			Value: json.RawMessage(fmt.Sprintf(`{"group":"g%d.example.com","version":"v1","kind":"K"}`, i))})
	}
	c := assess.Cluster{Lookups: requirement.World{Reader: silent{}}.Lookups(), Indexes: &resolver.Indexes{}}
	_, err := c.Unmet(t.Context(), extension(), &operatorsv1alpha1.ClusterServiceVersion{}, b)
	require.Error(t, err)
	require.Equal(t, 1, strings.Count(err.Error(), "no answer"))
}
