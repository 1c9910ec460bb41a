package scoped

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestOLMManagesANamespaceIfAnOperatorGroupHasTheAnnotation(t *testing.T) {
	left, other := group("left", "acct"), group("other", "acct")
	left.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	other.Annotations = map[string]string{names.AnnotationManagedBy: "remit"}
	for _, row := range []struct {
		name  string
		read  Lookup
		where string
		want  bool
	}{
		{"no OperatorGroup", Lookup{Reader: reader(t)}, "ns", false},
		{"another value", Lookup{Reader: reader(t, other)}, "ns", false},
		{"one of two", Lookup{Reader: reader(t, left, other)}, "ns", true},
		{"in another namespace", Lookup{Reader: reader(t, left)}, "ns2", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.read.LeavesToOLM(t.Context(), row.where)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
	require.NoError(t, CheckNotLeft(nil))
	require.NoError(t, CheckNotLeft(other))
	err := CheckNotLeft(left)
	require.True(t, apierrors.IsConflict(err), "a conflict is not reported in a status: %v", err)
	require.Empty(t, ReasonOf(err))
}
