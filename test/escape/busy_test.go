package escape

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// busyNamespaces is a number of new namespaces that exceeds the number of workers of the installplan controller that new
	// namespaces can use.
	busyNamespaces = 10
	// busyDeployments is the number of Deployments of each of their operators.
	busyDeployments = 100
)

// busyInstalls returns rows about installs of many objects.
func busyInstalls() []row {
	return []row{
		{number: "321", title: "ten new namespaces whose operators have 100 Deployments each, and a small install", holds: p0(), long: true, play: func(s *scene) {
			var busy []*scene
			for i := range busyNamespaces {
				one := s.beside(i)
				one.group(one.Namespace)
				one.publish(bundleOf(manyDeployments(busyDeployments)))
				one.subscribe()
				busy = append(busy, one)
			}
			s.Eventually(func(c *assert.CollectT) {
				for _, one := range busy[:busyNamespaces-1] {
					assert.Positive(c, one.deployed(c), one.Namespace)
				}
			})
			s.install(bundleOf(csv()))
			s.Eventually(func(c *assert.CollectT) {
				assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, s.Plan(c).Status.Phase)
			})
			for _, one := range busy {
				assert.Less(s.T, one.deployed(s.T), busyDeployments, "the small plan was complete before any install of many objects")
			}
			s.running(probeCSV)
			s.Eventually(func(c *assert.CollectT) { // the control plane is still busy with them, which the oracle's install would notice
				for _, one := range busy {
					assert.Equal(c, busyDeployments, one.deployed(c), one.Namespace)
				}
			})
		}},
	}
}

// manyDeployments returns a CSV with many small Deployments.
func manyDeployments(n int) forge.CSV {
	list := make([]any, n)
	for i := range list {
		name := fmt.Sprint("d", i)
		list[i] = map[string]any{"name": name, "spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": name}}, "template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"serviceAccountName": forge.ServiceAccount, "containers": []any{map[string]any{"name": "c", "image": forge.Image}}},
			}}}
	}
	return csv().Set(list, "spec", "install", "spec", "deployments")
}

// deployed returns the number of Deployments in the namespace.
func (s *scene) deployed(t require.TestingT) int {
	list := &appsv1.DeploymentList{}
	require.NoError(t, cluster.Client.List(s.T.Context(), list, client.InNamespace(s.Namespace)))
	return len(list.Items)
}
