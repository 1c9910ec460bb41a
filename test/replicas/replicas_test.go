package replicas

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/env/registry"
)

const (
	olm = names.ServiceAccountOLM
	// subscriptions and extensions are the numbers of operators that are installed, upgraded and removed.
	subscriptions, extensions = 50, 10
	// waves is the number of groups of operators. Each begins when the one before it has been installed, so that installs, upgrades
	// and removals happen at the same time.
	waves = 3
)

func TestOperatorsAreInstalledUpgradedAndRemovedWhileReplicasAreKilled(t *testing.T) {
	images := registry.New(t)
	plain := "--registry-plain-http=" + images.Host
	k := newKiller(t, map[string][]string{
		names.ServiceAccountExtension: {plain, "--catalog-content-bind-address=127.0.0.1:0"},
	})
	serveExtensions(t, images)
	var all []operator
	for range subscriptions {
		all = append(all, newSubscribed(t))
	}
	for range extensions {
		all = append(all, newExtended(t))
	}
	admin := &env.Tenant{T: t, Cluster: cluster}
	awaitServiceAccounts(admin)
	before, err := cluster.Census(t.Context(), env.Selection{})
	require.NoError(t, err)
	from, err := audit.End(cluster.AuditLog)
	require.NoError(t, err)

	k.start(t)
	live(all)
	admin.RemoveCRD(demo.DeepCopy())
	admin.Eventually(func(c *assert.CollectT) {
		after, err := cluster.Census(t.Context(), env.Selection{})
		if assert.NoError(c, err) {
			assert.Empty(c, before.Difference(after, nil), "the cluster differs from before the installs")
		}
	})
	k.stop(t)
	requireMadeOnce(t, from)
}

// awaitServiceAccounts waits until the cluster has created the objects that it creates in each namespace.
func awaitServiceAccounts(admin *env.Tenant) {
	admin.T.Helper()
	admin.Eventually(func(c *assert.CollectT) {
		namespaces, accounts, certificates := &corev1.NamespaceList{}, &corev1.ServiceAccountList{}, &corev1.ConfigMapList{}
		assert.NoError(c, cluster.Client.List(admin.T.Context(), namespaces))
		assert.NoError(c, cluster.Client.List(admin.T.Context(), accounts, client.MatchingFields{"metadata.name": "default"}))
		assert.NoError(c, cluster.Client.List(admin.T.Context(), certificates, client.MatchingFields{"metadata.name": "kube-root-ca.crt"}))
		assert.Len(c, accounts.Items, len(namespaces.Items))
		assert.Len(c, certificates.Items, len(namespaces.Items))
	})
}

// live installs, upgrades and removes the operators, wave by wave.
func live(all []operator) {
	type stage struct{ begin, await func(operator) }
	stages := []stage{
		{operator.install, operator.installed},
		{operator.upgrade, operator.upgraded},
		{operator.remove, operator.removed},
	}
	for round := range waves + len(stages) - 1 {
		began := time.Now()
		each := func(do func(s stage, o operator)) {
			for i, o := range all {
				if n := round - i%waves; n >= 0 && n < len(stages) {
					do(stages[n], o)
				}
			}
		}
		each(func(s stage, o operator) { s.begin(o) })
		each(func(s stage, o operator) { s.await(o) })
		fmt.Printf("replicas: round %d took %.1f s\n", round+1, time.Since(began).Seconds())
	}
}

// requireMadeOnce asserts that neither Remit nor an account has created an object twice, and that there were only as many
// InstallPlans as versions. A deletion may be repeated while an object has finalizers.
func requireMadeOnce(t *testing.T, from int64) {
	t.Helper()
	identities := cluster.ControllerIdentities()
	events, _, err := cluster.AuditedFrom(t.Context(), from, func(e audit.Event) bool {
		return identities.Is(e) || strings.HasSuffix(e.Actor(), ":"+env.AccountName)
	})
	require.NoError(t, err)
	created, plans := 0, 0
	for change, times := range audit.Changes(events) {
		if !strings.HasPrefix(change, "create ") {
			continue
		}
		assert.Equal(t, 1, times, change)
		assert.False(t, strings.HasSuffix(change, "/"), "%s: the API server generated the name", change)
		created++
		if strings.HasPrefix(change, "create installplans.") {
			plans++
		}
	}
	assert.LessOrEqual(t, plans, 2*subscriptions, "InstallPlans")
	require.Greater(t, created, subscriptions+extensions)
	fmt.Printf("replicas: %d objects were created, each once, among them %d InstallPlans\n", created, plans)
}
