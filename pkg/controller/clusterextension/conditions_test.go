package clusterextension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// A run that stops before it checks the permissions keeps the condition of the previous run, unless the identity has changed.
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

// While the cache does not show the last patch of the status, a run cannot save another status, because the API server would
// refuse the patch.
func TestSendsNoStatusFromAnOutdatedCache(t *testing.T) {
	t.Parallel()
	patches := 0
	u := givenUnit(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		patches++
		return c.SubResource(name).Patch(ctx, obj, patch, opts...) //nolint:wrapcheck // a wrapper returns the original error
	}}, extension("a"))
	read := func() *olmv1.ClusterExtension {
		ext := &olmv1.ClusterExtension{}
		require.NoError(t, u.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, ext))
		return ext
	}
	save := func(ext *olmv1.ClusterExtension, why string) bool {
		s := u.begin(ext)
		require.NoError(t, s.conclude(t.Context(), waiting(message.Line(why)), nil))
		saved, err := s.save(t.Context())
		require.NoError(t, err)
		return saved
	}
	outdated := read()
	require.True(t, save(outdated, "for a grant"))
	require.False(t, save(outdated, "for a grant"))
	require.Equal(t, 1, patches)
	require.True(t, save(read(), "for a grant"))
	require.Equal(t, 1, patches, "nothing has changed")
	require.True(t, save(read(), "for a catalog"))
	require.Equal(t, 2, patches)
	u.clock.SetTime(u.clock.Now().Add(maxCacheLag))
	require.False(t, save(outdated, "for a namespace"))
	require.Equal(t, 3, patches, "the API server decides")
}
