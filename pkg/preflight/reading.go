package preflight

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/crd"
)

// SchemaNeeds returns the need to list custom resources cluster-wide if the new schema of an existing
// CustomResourceDefinition might reject objects that the live schema accepts: the existing objects are then validated
// against the new schema. It returns nil if the live CustomResourceDefinition has another owner, because Remit then
// does not write it.
func SchemaNeeds(s step.Step, live *apiextensionsv1.CustomResourceDefinition) []Need {
	// Ownership marks are not proof, but they are sufficient for an explanation, and the CLI has no key to verify
	// proofs.
	if live == nil || !s.Owner.Marks(live) {
		return nil
	}
	want, err := crd.Decode(s.Object)
	if err != nil {
		return nil // the error is reported when the write is refused
	}
	versions := crd.Stricter(live, want)
	if len(versions) == 0 {
		return nil
	}
	return []Need{{
		Namespace: rbac.ClusterScope, Object: apply.Describe(s.Object), Rules: List(want),
		Cause: fmt.Sprintf("validate existing objects against the new schema of %s, in version %s", apply.Describe(s.Object), strings.Join(versions, ", ")),
	}}
}

// List returns the rules that allow an account to list the custom resources of a CustomResourceDefinition.
func List(d *apiextensionsv1.CustomResourceDefinition) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{d.Spec.Group}, Resources: []string{d.Spec.Names.Plural}, Verbs: []string{"list"}}}
}
