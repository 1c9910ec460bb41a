package execute

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
)

func TestWhatAUserOfATargetCanOccupyIsSkipped(t *testing.T) {
	state := func(namespace, csv string, problem error) State {
		role := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}}
		role.SetNamespace(namespace)
		role.SetName("r")
		role.SetLabels(map[string]string{names.LabelPermissionsHash: "x"})
		owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "ns"}, CSV: csv}
		return State{Step: step.Step{Object: role, Owner: owner}, Problem: problem}
	}
	deleted := state("t1", "demo.v1", nil)
	deleted.Live = deleted.Step.Object.DeepCopy()
	deleted.Live.SetDeletionTimestamp(new(metav1.Now()))
	fromBundle := state("t1", "demo.v1", nil)
	fromBundle.Step.Object.SetLabels(nil)
	for _, row := range []struct {
		name  string
		first State
		skips bool
	}{
		{"nothing", state("t1", "demo.v1", nil), false},
		{"a collision", state("t1", "demo.v1", &apply.CollisionError{}), true},
		{"too many bindings", state("t1", "demo.v1", &apply.DelayedError{Why: "there are too many"}), true},
		{"a role that a finalizer keeps", deleted, true},
		{"another error", state("t1", "demo.v1", errors.New("x")), false},
		{"a delay in the operator's own namespace", state("ns", "demo.v1", &apply.DelayedError{}), false},
	} {
		states := []State{row.first, state("t1", "demo.v1", nil), state("t2", "demo.v1", nil), state("t1", "other.v1", nil), fromBundle}
		SkipOccupied(states)
		var skipped []bool
		for _, s := range states {
			skipped = append(skipped, s.Skipped)
		}
		require.Equal(t, []bool{row.skips, row.skips, false, false, false}, skipped, row.name)
		require.Equal(t, row.skips, Occupies(states[0].Problem) && states[0].Step.Object.GetNamespace() == "t1", row.name)
	}
}
