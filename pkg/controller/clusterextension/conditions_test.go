package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

// A run that stops before it checks the permissions keeps the condition of the last one, unless the identity has changed.
func TestAuthorizedDescribesTheCurrentIdentity(t *testing.T) {
	t.Parallel()
	ext := extension("a", func(ext *olmv1.ClusterExtension) {
		ext.Status.Identity = &olmv1.Identity{Kind: olmv1.IdentityKindUser, Name: "olm:clusterextension:a"}
		meta.SetStatusCondition(&ext.Status.Conditions, metav1.Condition{Type: olmv1.TypeAuthorized, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded})
	})
	u := givenUnit(t, interceptor.Funcs{}, ext)
	authorized := func(identity *olmv1.Identity) string {
		s := u.begin(ext)
		s.ext.Status.Identity = identity
		require.NoError(t, s.conclude(t.Context(), waiting("for a catalog"), nil))
		return meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeAuthorized).Reason
	}
	require.Equal(t, olmv1.ReasonSucceeded, authorized(ext.Status.Identity.DeepCopy()))
	require.Equal(t, olmv1.ReasonEvaluationIncomplete, authorized(&olmv1.Identity{Kind: olmv1.IdentityKindServiceAccount, Namespace: "ns", Name: "installer"}))
}
