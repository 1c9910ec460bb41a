package execute

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// DryRun sends, as a dry run, the request that Do would send to write the step's object: the API server checks
// permissions, admission, quota and schema, and stores nothing. DryRun sends no request if Do would write nothing or if
// GatherNew has already sent it, and repeats the request each time that fields are removed from the step's object.
func (e *Executor) DryRun(ctx context.Context, s State) error {
	if s.accepted {
		return nil
	}
	dry := &Executor{
		Account: client.NewDryRunClient(e.Account), CRDs: client.NewDryRunClient(e.CRDs), IsDefault: e.IsDefault,
		csvs: maps.Clone(e.csvs), accounts: maps.Clone(e.accounts), Pruned: e.Pruned,
	}
	_, err := dry.write(ctx, s)
	return err
}

// ChangesOwners reports whether executing the step would change the owners of an existing object, as a later version of
// an operator does. For such a change, some clusters require permission to delete the object.
func (e *Executor) ChangesOwners(s State) bool {
	if s.Live == nil {
		return false
	}
	uids := func(obj *unstructured.Unstructured) map[types.UID]bool {
		out := map[types.UID]bool{}
		for _, ref := range obj.GetOwnerReferences() {
			out[ref.UID] = true
		}
		return out
	}
	return !maps.Equal(uids(s.Live), uids(e.owned(s.Step)))
}

// Tryable returns the states of those steps of a plan that the API server can evaluate before any step is executed. It
// omits bindings to roles that the plan creates, objects of kinds that the plan defines, objects that are being
// deleted, and steps that are skipped or whose Problem is already known.
func Tryable(states []State) []State {
	made := map[string]bool{}
	kinds := map[schema.GroupKind]bool{}
	for _, s := range states {
		switch {
		case s.Step.IsCRD() && (s.Live == nil || !Serves(s.Live, s.Step.Object)):
			kinds[bundle.DefinedKind(s.Step.Object)] = true
		case s.Live == nil:
			made[apply.Describe(s.Step.Object)] = true
		}
	}
	var out []State
	for _, s := range states {
		deleting := s.Live != nil && s.Live.GetDeletionTimestamp() != nil
		if s.Problem != nil || s.Skipped || deleting || kinds[s.Step.Object.GroupVersionKind().GroupKind()] || made[RoleOf(s.Step.Object)] {
			continue
		}
		out = append(out, s)
	}
	return out
}
