package escape

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// manyContainers is the number of containers in a CSV of 90 KB.
	manyContainers = 3_000
	// emptyEntries is the number of empty entries in a Subscription of 1.4 MB.
	emptyEntries = 460_000
)

// products returns rows about sizes that are multiplied. Invariant I6 limits the memory of the programs.
func products() []row {
	return []row{
		{number: "310", title: "3,000 containers, each with 5,000 limits of the Subscription", holds: p1(), play: func(s *scene) {
			s.multiply(5_000)
			s.planSays("resources.limits has 5000 entries; at most 1000 are allowed")
			s.noDeployments()
		}},
		{number: "310a", title: "3,000 containers, each with 1,000 limits of the Subscription", holds: p1(), play: func(s *scene) {
			s.multiply(1_000)
			s.planSays(`Deployment "`+forge.Deployment+`" would need at least`, "at most 1.5 MiB are allowed", "use fewer containers")
			s.noDeployments()
		}},
		{number: "311", long: true, title: "three Subscriptions of 1.4 MB of empty tolerations", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.publish(bundleOf(csv()))
			mallory, empty := s.mallory(), make([]any, emptyEntries)
			for i := range empty {
				empty[i] = map[string]any{}
			}
			for i := range 3 {
				require.NoError(s.T, s.apply(mallory, map[string]any{
					"apiVersion": "operators.coreos.com/v1alpha1", "kind": operatorsv1alpha1.SubscriptionKind, "metadata": map[string]any{"name": fmt.Sprint("large", i)},
					"spec": map[string]any{"name": probe, "channel": forge.Channel, "source": "catalog", "sourceNamespace": s.Namespace, "config": map[string]any{"tolerations": empty}},
				}))
			}
			s.Eventually(func(c *assert.CollectT) {
				for i := range 3 {
					sub := &operatorsv1alpha1.Subscription{}
					assert.NoError(c, cluster.Client.Get(s.T.Context(), types.NamespacedName{Namespace: s.Namespace, Name: fmt.Sprint("large", i)}, sub))
					assert.Contains(c, sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed).Message, "more than 20000 entries of lists and objects together")
				}
			})
			s.noDeployments()
		}},
	}
}

// multiply installs a CSV with manyContainers, through a Subscription that sets the given number of limits.
func (s *scene) multiply(limits int) {
	s.T.Helper()
	containers := make([]any, manyContainers)
	for i := range containers {
		containers[i] = map[string]any{"name": fmt.Sprint("c", i), "image": "i"}
	}
	config := &operatorsv1alpha1.SubscriptionConfig{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
	for i := range limits {
		config.Resources.Limits[corev1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
	}
	s.group(s.Namespace)
	s.publish(bundleOf(csv().PodSpec(containers, "containers")))
	s.subscribe(func(spec *operatorsv1alpha1.SubscriptionSpec) { spec.Config = config })
}
