package controller

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestACatalogChangeWakesItsNamespaceOrAllIfItIsGlobal(t *testing.T) {
	store := &catalog.Store{}
	var asked []string
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	source := published(store, inNamespace("global", func(_ context.Context, namespace string) []reconcile.Request {
		asked = append(asked, namespace)
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "x"}}}
	}))
	require.NoError(t, source.Start(t.Context(), queue))
	for _, namespace := range []string{"team-a", "global"} {
		store.Touch(types.NamespacedName{Namespace: namespace, Name: "catalog"})
	}
	require.Equal(t, []string{"team-a", ""}, asked)
	require.Equal(t, 2, queue.Len())
}
