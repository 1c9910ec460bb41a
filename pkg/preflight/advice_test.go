package preflight

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Each note repeated the name of the Role: 20,000 resources and a name of 200 KB took 4 GB.
func TestARoleHasFewNotes(t *testing.T) {
	role := &rbacv1.Role{}
	role.APIVersion, role.Kind, role.Name, role.Namespace = rbacv1.SchemeGroupVersion.String(), "Role", "a", "ns"
	rule := rbacv1.PolicyRule{APIGroups: []string{"x"}, Verbs: []string{"get"}}
	for i := range 1000 {
		rule.Resources = append(rule.Resources, fmt.Sprintf("r%d/*", i))
	}
	role.Rules = append(role.Rules, rule)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(role)
	require.NoError(t, err)
	needs := roles{}.ofRole(&unstructured.Unstructured{Object: content})
	require.Len(t, needs, 1)
	require.Len(t, needs[0].Notes, maxAdvice+1)
	require.Equal(t, `Role ns/a: and 980 more notes about its rules`, needs[0].Notes[maxAdvice])
}
