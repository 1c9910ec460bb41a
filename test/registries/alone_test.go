package registries

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// These tests do not run in parallel, and run before the parallel ones.

// Deleting the RoleBinding has the same effect as installing Remit without the Role in the global catalog namespace.
func TestReportsAMissingRole(t *testing.T) {
	binding := &rbacv1.RoleBinding{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: global, Name: "remit-catalog-registries"}, binding))
	require.NoError(t, cluster.Client.Delete(t.Context(), binding))
	restore := sync.OnceFunc(func() {
		binding.ResourceVersion, binding.UID = "", ""
		require.NoError(t, cluster.Client.Create(context.Background(), binding))
	})
	t.Cleanup(restore)
	ref, pinned := push(t, "role", "v1", sample(t))
	s := create(t, "role", operatorsv1alpha1.CatalogSourceSpec{Image: ref})
	// The first request that is refused depends on whether the program has already watched the namespace.
	got := s.says(`User "system:serviceaccount:remit:remit-catalog" cannot`, `in the namespace "remit-catalogs"`)
	require.Equal(t, "TRANSIENT_FAILURE", got.Status.GRPCConnectionState.LastObservedState)
	require.Empty(t, s.pods(t))

	restore()
	s.pod(pinned)
	s.ready()
}

// Remit starts while the tag cannot be resolved. It must recognize the running Pod as its own.
func TestARegistryKeepsServingWhileItsImageCannotBeResolved(t *testing.T) {
	ref, pinned := push(t, "stays", "v1", sample(t))
	s := create(t, "stays", operatorsv1alpha1.CatalogSourceSpec{Image: ref})
	pod := s.pod(pinned)
	s.ready()

	images.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	defer images.Answer(nil)
	restart(t)
	got := s.says("503", "is still served")
	require.Equal(t, "READY", got.Status.GRPCConnectionState.LastObservedState)
	tn := cluster.Tenant(t)
	install(tn, "stays")
	require.Equal(t, pod.UID, s.pod(pinned).UID)
	images.Answer(nil)
	s.ready()
	require.Equal(t, pod.UID, s.pod(pinned).UID)

	// A running registry is neither changed nor polled.
	require.Empty(t, sentWithin(t, 10*time.Second))
}

// restart deletes the catalog program's Pod and waits until its replacement is ready.
func restart(t *testing.T) {
	t.Helper()
	list := &corev1.PodList{}
	mine := client.MatchingLabels{"app.kubernetes.io/name": names.ServiceAccountCatalog}
	require.NoError(t, cluster.Client.List(t.Context(), list, client.InNamespace(names.DefaultNamespace), mine))
	require.Len(t, list.Items, 1)
	old := list.Items[0]
	require.NoError(t, cluster.Client.Delete(t.Context(), &old))
	eventually(t, func(c *assert.CollectT) {
		list := &corev1.PodList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list, client.InNamespace(names.DefaultNamespace), mine))
		if assert.Len(c, list.Items, 1) {
			assert.NotEqual(c, old.UID, list.Items[0].UID)
			assert.True(c, server.IsReady(&list.Items[0]))
		}
	})
}

// install installs an operator from a CatalogSource in the global catalog namespace.
func install(tn *env.Tenant, catalog string) {
	tn.T.Helper()
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(tn.T, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe(catalog, bundle.Package, bundle.Channel, func(spec *operatorsv1alpha1.SubscriptionSpec) { spec.CatalogSourceNamespace = global })
	tn.Succeeded(bundle.CSV)
}

// sentWithin waits until the catalog program stops sending requests, and returns the requests that it sends within d
// after that.
func sentWithin(t *testing.T, d time.Duration) []audit.Event {
	t.Helper()
	sent := func() []audit.Event {
		all, err := cluster.Audited(t.Context(), func(e audit.Event) bool {
			return strings.HasSuffix(e.User.Username, ":"+names.ServiceAccountCatalog) && e.Verb != "watch" && (e.Object == nil || e.Object.Resource != "leases")
		})
		require.NoError(t, err)
		return all
	}
	before := -1
	for all := sent(); len(all) != before; all = sent() {
		before = len(all)
		time.Sleep(3 * time.Second)
	}
	time.Sleep(d)
	return sent()[before:]
}
