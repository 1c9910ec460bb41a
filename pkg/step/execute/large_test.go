package execute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// An administrator of one target creates a Role with the operator's name and 1 MB of managed fields: at first, plans and CSVs were stopped
// for all targets, by an error that named no object.
func TestALargeObjectInATargetAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	c, steps := givenFat(t, 21)
	for i := range steps {
		steps[i].Object.SetLabels(map[string]string{names.LabelPermissionsHash: "x"})
		steps[i].Owner = ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "operators"}, CSV: "p.v1"}
	}
	own := steps[20]
	own.Owner.Namespace = "ns"
	e := &Executor{Account: c, Place: func() error { require.Fail(t, "objects that are too large need no memory"); return nil }}
	states, err := e.Gather(t.Context(), append(steps[:20:20], own))
	require.NoError(t, err)
	SkipOccupied(states)
	for _, s := range states[:20] {
		require.True(t, s.Skipped && Occupies(s.Problem), "%v", s.Problem)
		require.ErrorContains(t, s.Problem, "ConfigMap ns/"+s.Step.Object.GetName()+" exists, but it is too large")
		require.Nil(t, s.Live)
	}
	require.NotNil(t, states[20].Live)
	require.False(t, states[20].Skipped)

	_, _, err = Roles{Owner: steps[0].Owner}.Ensure(t.Context(), c, steps[0].Object)
	require.True(t, Occupies(err), "%v", err)
	require.ErrorContains(t, err, "ConfigMap ns/a0 exists, but it is too large")
}

// Many targets with objects that are almost too large cannot use the memory of the other objects.
func TestTheMemoryOfObjectsInTargetsIsLimited(t *testing.T) {
	t.Parallel()
	_, steps := givenFat(t, 1)
	places := 0
	e := &Executor{Place: func() error { places++; return nil }}
	for range MaxForTargets >> 17 {
		require.NoError(t, e.takeForTarget(steps[0].Object, 1<<17))
	}
	err := e.takeForTarget(steps[0].Object, 1<<17)
	require.True(t, Occupies(err), "%v", err)
	require.NoError(t, e.take(steps[0].Object, MaxMemory))
	require.Positive(t, places)
	require.ErrorContains(t, e.take(steps[0].Object, 1), "ConfigMap ns/a0 needs the most, about 48 MiB")
}

// Objects of ordinary size in many targets need more memory together than the install may use for them: what is beyond the limit is left
// out, instead of stopping the install.
func TestTooManyObjectsInTargetsDoNotStopTheInstall(t *testing.T) {
	t.Parallel()
	c, steps := givenLive(t, 600, 200)
	for i := range steps {
		steps[i].Object.SetLabels(map[string]string{names.LabelPermissionsHash: "x"})
		steps[i].Owner = ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "operators"}, CSV: "p.v1"}
	}
	steps[599].Owner.Namespace = "ns"
	e := &Executor{Account: c, Place: func() error { return nil }}
	states, err := e.Gather(t.Context(), steps)
	require.NoError(t, err)
	require.NotNil(t, states[0].Live)
	require.NotNil(t, states[599].Live, "objects of the operator's own namespace have their own memory")
	require.True(t, Occupies(states[598].Problem), "%v", states[598].Problem)
	require.ErrorContains(t, states[598].Problem, "the existing objects in all target namespaces would need more than 48 MiB of memory together")
}
