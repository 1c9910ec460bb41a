package clusterextension

import (
	"maps"
	"slices"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// keepEdits removes, from what is sent for a Deployment that was written from the desired spec, the fields that other clients have
// changed since, such as the number of replicas. These are kept; all other fields are restored. It describes the fields. A
// Deployment that was written from another spec is not affected: there, the edits are reported as conflicts.
func (s *run) keepEdits(state execute.State) (execute.State, []string) {
	if !s.isWritten(state) {
		return state, nil
	}
	var edits []string
	state.Step.Object, edits = apply.WithoutEdits(state.Live, state.Step.Object)
	return state, edits
}

// aboutEdits describes the fields that other clients have changed and that are kept.
func (s *run) aboutEdits() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.pass.marks)) {
		for _, edit := range s.pass.marks[name].edits {
			out = append(out, name+": "+edit)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []string{"other clients changed these fields, which are kept: " + bundle.Named(out)}
}
