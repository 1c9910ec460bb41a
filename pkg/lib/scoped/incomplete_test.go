package scoped

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Without a part of its spec, a group might select more namespaces than its author wrote.
func TestAPartOfAnOperatorGroupHasNoAccount(t *testing.T) {
	og := group("og", "acct")
	og.Annotations = map[string]string{names.AnnotationUndecodable: "why"}
	_, err := Lookup{Reader: reader(t, og, serviceAccount("ns", "acct"))}.AccountOf(t.Context(), og)
	require.Equal(t, NoAccount, ReasonOf(err))
	require.ErrorContains(t, err, `OperatorGroup ns/og: a part of the object cannot be decoded`)
	targets, err := Lookup{Reader: reader(t, og)}.Targets(t.Context(), og, nil)
	require.Empty(t, targets)
	require.Equal(t, NoAccount, ReasonOf(err))
	require.ErrorContains(t, err, `OperatorGroup ns/og: a part of the object cannot be decoded`)
}
