package scopedcache

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A refused watch is retried occasionally. Until the server responds, its previous response remains valid.
func TestADeniedErrorKeepsItsVerbsDuringARetry(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	mapping, err := f.options.Mapper.RESTMapping(schema.GroupKind{Kind: "Secret"}, "v1")
	require.NoError(t, err)
	require.NoError(t, f.secrets.began(t.Context(), feed, mapping))
	requireMissing := func(verbs ...string) {
		t.Helper()
		var denied *DeniedError
		require.ErrorAs(t, f.Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{}), &denied)
		require.Equal(t, verbs, denied.Missing, denied.Error())
		require.Equal(t, verbs, f.Status(ownerOf("o"))[0].Missing)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
	f.secrets.answered(feed, "watch", forbidden)
	f.secrets.answered(feed, "list", forbidden)
	feed.denied()
	requireMissing("list", "watch")

	require.NoError(t, f.secrets.began(t.Context(), feed, mapping)) // the next attempt
	requireMissing("list", "watch")
	f.secrets.answered(feed, "watch", forbidden)
	requireMissing("list", "watch")
	f.secrets.answered(feed, "list", nil)
	feed.denied()
	requireMissing("watch")

	require.NoError(t, f.secrets.began(t.Context(), feed, mapping))
	f.secrets.answered(feed, "watch", nil)
	requireMissing("watch")
	feed.lists(t, "10")
	require.Empty(t, f.Status(ownerOf("o"))[0].Missing)
}
