package execute

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// DryRun sends the write that Do would send as a dry run: the API server checks rights, admission,
// quota and schema, and keeps nothing. It costs one request at most, and none where Do would write nothing; and one more each
// time that fields are removed from the step's object.
func (e *Executor) DryRun(ctx context.Context, s State) error {
	dry := &Executor{
		Account: client.NewDryRunClient(e.Account), CRDs: client.NewDryRunClient(e.CRDs), IsDefault: e.IsDefault,
		csvs: maps.Clone(e.csvs), Pruned: e.Pruned,
	}
	_, err := dry.write(ctx, s)
	return err
}

// ChangesOwners says whether doing the step would change the owners of an object that exists, as a later
// version of an operator does. Some clusters ask who does that for the right to delete the object.
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

// Tryable are those of a plan's steps that the API server can judge before the others are done: not the
// bindings of roles that the plan makes, nor objects of kinds that it makes, nor what is being deleted. What
// has a Problem is judged already.
func Tryable(states []State) []State {
	made := map[string]bool{}
	kinds := map[schema.GroupKind]bool{}
	for _, s := range states {
		switch {
		case s.Step.IsCRD() && (s.Live == nil || !Serves(s.Live, s.Step.Object)):
			kinds[kindOf(s.Step.Object)] = true
		case s.Live == nil:
			made[apply.Describe(s.Step.Object)] = true
		}
	}
	var out []State
	for _, s := range states {
		gone := s.Live != nil && s.Live.GetDeletionTimestamp() != nil
		if s.Problem != nil || gone || kinds[s.Step.Object.GroupVersionKind().GroupKind()] || made[RoleOf(s.Step.Object)] {
			continue
		}
		out = append(out, s)
	}
	return out
}
