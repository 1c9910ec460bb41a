package installplan

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestPlansOfOLMAreNotExecuted(t *testing.T) {
	t.Parallel()
	group := operatorGroup("og", "acct")
	group.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	checkRows(t, []row{{"a plan of OLM", []change{with(group)}, effect{}}})
}

// The OperatorGroup gets the annotation while a plan is executed. The plan ends without a status, because OLM may execute it.
func TestAPlanThatIsHandedOverToOLMStops(t *testing.T) {
	t.Parallel()
	leave := func(c client.Client) {
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "og"}}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(og), og))
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
		require.NoError(t, c.Update(t.Context(), og))
	}
	t.Log("no client is opened if the API server shows the annotation")
	s := accountRun(t, "acct", "acct") // Accounts is not set, so creating a client would panic
	live, ok := s.reconciler.Live.(client.Client)
	require.True(t, ok)
	leave(live)
	_, err := openClients(t.Context(), s)
	require.ErrorIs(t, err, errStale)

	t.Log("no further step is executed once the cache shows the annotation")
	require.NoError(t, s.sameAccount(t.Context()))
	leave(s.reconciler.Client)
	require.ErrorIs(t, s.sameAccount(t.Context()), errStale)
}
