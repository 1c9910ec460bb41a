package csv

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// dependents returns n entries. Every third entry is not satisfied.
func dependents(n int) []operatorsv1alpha1.DependentStatus {
	var out []operatorsv1alpha1.DependentStatus
	for i := range n {
		out = append(out, dependent(i%3 != 0, fmt.Sprintf(`namespaced rule:{"verbs":["get"],"apiGroups":[""],"resources":["<r%d>"]}`, i)))
	}
	return out
}

func TestDependentsThatFitKeepTheirOrder(t *testing.T) {
	s := &scope{csv: csvOf("v1"), requirements: []operatorsv1alpha1.RequirementStatus{{Dependents: dependents(300)}, {Name: "crd"}}}
	require.Equal(t, s.requirements, s.shown())
}

func TestUnsatisfiedDependentsComeFirst(t *testing.T) {
	s := &scope{csv: csvOf("v1"), requirements: []operatorsv1alpha1.RequirementStatus{
		{Name: "a", Dependents: dependents(6_000)}, {Name: "crd"}, {Name: "b", Dependents: dependents(10)},
	}}
	got := s.shown()
	require.Equal(t, s.requirements[1:], got[1:])
	require.Len(t, s.requirements[0].Dependents, 6_000, "the gathered requirements are unchanged")
	shown := got[0].Dependents
	last := shown[len(shown)-2:]
	require.Equal(t, []operatorsv1alpha1.DependentStatus{
		dependent(false, fmt.Sprintf("and %d more", 2_000-(len(shown)-2))), dependent(true, "and 4000 more"),
	}, last)
	for i, d := range shown[:len(shown)-2] {
		require.Equal(t, dependents(3*i + 1)[3*i], d)
	}
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.Less(t, len(raw), maxDependents)
}

func TestALargeCSVHasLessRoomForDependents(t *testing.T) {
	csv := csvOf("v1")
	csv.Spec.Description = strings.Repeat("x", maxObject-100_000)
	room := (&scope{csv: csv}).room()
	require.Less(t, room, 100_000)
	require.Greater(t, room, minDependents)
	csv.Spec.Description = strings.Repeat("x", 2*maxObject)
	require.Equal(t, minDependents, (&scope{csv: csv}).room())
}

func TestARuleWithManyResourcesIsSplit(t *testing.T) {
	wide := rbacv1.PolicyRule{APIGroups: []string{"g"}, Verbs: []string{"get"}}
	for i := range 1_000 {
		wide.Resources = append(wide.Resources, fmt.Sprint("r", i))
	}
	var all []rbacv1.PolicyRule
	for _, p := range rbac.Split([]rbacv1.PolicyRule{wide}, maxLines/2) {
		require.LessOrEqual(t, len(rbac.Line(p)), maxLines/2)
		all = append(all, p)
	}
	require.Equal(t, rbac.Compact([]rbacv1.PolicyRule{wide}), rbac.Compact(all))
	huge := rbacv1.PolicyRule{APIGroups: []string{strings.Repeat("g", maxLines)}, Resources: []string{"r"}, Verbs: []string{"get"}}
	require.Equal(t, []rbacv1.PolicyRule{huge}, rbac.Split([]rbacv1.PolicyRule{huge}, maxLines/2))
}

func TestRequirementsAreLines(t *testing.T) {
	const injected = "a\n---\nkind: ClusterRoleBinding\x1b"
	in := []operatorsv1alpha1.RequirementStatus{{Message: injected, Dependents: []operatorsv1alpha1.DependentStatus{{Message: injected}}}}
	out := asLines(in)
	require.Equal(t, "a --- kind: ClusterRoleBinding\uFFFD", out[0].Message)
	require.Equal(t, out[0].Message, out[0].Dependents[0].Message)
	require.Equal(t, injected, in[0].Dependents[0].Message, "the cache is not changed")
}
