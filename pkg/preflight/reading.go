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

// Reading is what the step of a CustomResourceDefinition that exists needs beside the write, where its new schema
// might refuse objects that the live one takes: to list these in the whole cluster, since it is for all of them
// that the schema changes. None where the live one is somebody else's, as it is not written then.
func Reading(s step.Step, live *apiextensionsv1.CustomResourceDefinition) []Need {
	// The marks are hints. They are enough here: it only explains, and the CLI has no key to verify proofs with.
	if live == nil || !s.Owner.Marks(live) {
		return nil
	}
	want, err := crd.Decode(s.Object)
	if err != nil {
		return nil // its write is refused, and says why
	}
	versions := crd.Stricter(live, want)
	if len(versions) == 0 {
		return nil
	}
	return []Need{{
		Namespace: rbac.ClusterScope, Object: apply.Describe(s.Object), Rules: List(want),
		Cause: fmt.Sprintf("hold the objects that exist against the new schema of %s, in version %s", apply.Describe(s.Object), strings.Join(versions, ", ")),
	}}
}

// List are the rules by which the objects of a CustomResourceDefinition may be listed.
func List(d *apiextensionsv1.CustomResourceDefinition) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{d.Spec.Group}, Resources: []string{d.Spec.Names.Plural}, Verbs: []string{"list"}}}
}
