package csv

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Both sides of a conflict can own thousands of APIs, so a change to a Deployment must not compare them. The Reconciler has no client.
func TestAChangeWakesOnlyTheRivalsThatWaitForItsNamespace(t *testing.T) {
	r := &Reconciler{rivals: &rivals{}}
	a, b := client.ObjectKey{Namespace: "a", Name: "op.v1"}, client.ObjectKey{Namespace: "b", Name: "op.v1"}
	woken := func(namespace string) []reconcile.Request {
		return r.rivalsOf(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op"}})
	}
	require.True(t, r.rivals.set(a, "theirs"))
	require.False(t, r.rivals.set(a, "theirs"))
	require.True(t, r.rivals.set(b, "theirs"))
	require.ElementsMatch(t, []reconcile.Request{{NamespacedName: a}, {NamespacedName: b}}, woken("theirs"))
	require.Empty(t, woken("others"))
	require.True(t, r.rivals.set(a, "others"))
	require.Equal(t, []reconcile.Request{{NamespacedName: a}}, woken("others"))
	require.Equal(t, []reconcile.Request{{NamespacedName: b}}, woken("theirs"))
	require.True(t, r.rivals.set(b, ""))
	require.False(t, r.rivals.set(b, ""))
	require.Empty(t, woken("theirs"))
	require.True(t, r.rivals.set(a, ""))
	require.Empty(t, r.rivals.of)
	require.Empty(t, r.rivals.in)
}
