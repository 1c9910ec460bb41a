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

// SchemaNeeds returns the permission to list custom resources in the whole cluster if the new schema of an existing
// CustomResourceDefinition might refuse objects that the live one accepts. There are no needs for a live definition of
// another owner, because it is not written.
func SchemaNeeds(s step.Step, live *apiextensionsv1.CustomResourceDefinition) []Need {
	// Marks are only hints, which is sufficient for an explanation. The CLI has no key to verify proofs.
	if live == nil || !s.Owner.Marks(live) {
		return nil
	}
	want, err := crd.Decode(s.Object)
	if err != nil {
		return nil // the refusal of its write explains the error
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

// List returns the rules that allow listing the objects of a CustomResourceDefinition.
func List(d *apiextensionsv1.CustomResourceDefinition) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{d.Spec.Group}, Resources: []string{d.Spec.Names.Plural}, Verbs: []string{"list"}}}
}
