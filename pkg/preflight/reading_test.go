package preflight

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/test/env/proofs"
)

func TestAStricterSchemaRequiresListingObjects(t *testing.T) {
	with := func(schema string) string {
		return fmt.Sprintf("spec: {group: g.io, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, schema: {openAPIV3Schema: %[1]s}}, "+
			"{name: v2, served: true, schema: {openAPIV3Schema: %[1]s}}]}", schema)
	}
	const kind = "CustomResourceDefinition"
	wide := object(t, "apiextensions.k8s.io/v1", kind, "", with("{type: object, maxProperties: 4}"))
	narrow := object(t, "apiextensions.k8s.io/v1", kind, "", with("{type: object, maxProperties: 3}"))
	live, err := crd.Decode(wide.Object)
	require.NoError(t, err)
	require.Empty(t, SchemaNeeds(narrow, live), "the live CustomResourceDefinition belongs to another owner")
	narrow.Owner.Proofs, wide.Owner.Proofs = proofs.Keys(), proofs.Keys()
	proofs.Mark(live, narrow.Owner)
	require.Empty(t, SchemaNeeds(narrow, nil))
	require.Empty(t, SchemaNeeds(wide, live))
	require.Equal(t, []Need{{
		Object: "CustomResourceDefinition x", Rules: []rbacv1.PolicyRule{may("list", "g.io", "things")},
		Cause: "validate existing objects against the new schema of CustomResourceDefinition x, in version v1, v2",
	}}, SchemaNeeds(narrow, live))
	narrow.Object.Object["spec"] = "none"
	require.Empty(t, SchemaNeeds(narrow, live))
}
