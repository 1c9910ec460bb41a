package execute

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// IsForTarget reports whether an object is a role or a binding that is rendered from a CSV's permissions for a target namespace
// other than the operator's own. The names of these objects are predictable, so that a user of the target can occupy them.
func IsForTarget(obj *unstructured.Unstructured, owner ownerutil.Owner) bool {
	return obj.GetLabels()[names.LabelPermissionsHash] != "" && obj.GetNamespace() != "" && obj.GetNamespace() != owner.Namespace
}

// SkipOccupied skips an operator's roles and bindings in each target namespace in which one of them collides with an object of
// another owner. The operator gets no permissions there, so that a user of one target does not prevent the install for the others
// (docs/adr/0087).
func SkipOccupied(states []State) {
	type target struct{ csv, namespace string }
	occupied := map[target]bool{}
	of := func(s State) target { return target{s.Step.Owner.CSV, s.Step.Object.GetNamespace()} }
	for _, s := range states {
		if IsForTarget(s.Step.Object, s.Step.Owner) && apply.IsCollision(s.Problem) {
			occupied[of(s)] = true
		}
	}
	for i, s := range states {
		states[i].Skipped = IsForTarget(s.Step.Object, s.Step.Owner) && occupied[of(s)]
	}
}

// Occupation returns an error that says what a collision in a target namespace means for the operator.
func Occupation(namespace string, collision error) error {
	return fmt.Errorf("the operator gets no permissions in namespace %s: %w", namespace, collision)
}
