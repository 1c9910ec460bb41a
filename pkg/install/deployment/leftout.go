package deployment

import (
	"maps"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/bundle"
)

// LeftOut describes the labels and annotations that are removed from a ClusterServiceVersion's Deployments and their
// Pods because other programs in the cluster act on them (bundle.Harmless). It returns one line for each affected
// Deployment. config is the Subscription's config and may be nil.
func LeftOut(csv *operatorsv1alpha1.ClusterServiceVersion, config *operatorsv1alpha1.SubscriptionConfig) []string {
	var fromConfig []string
	if config != nil && CheckConfig(config) == nil { // keys that Remit itself reads are not reported
		_, fromConfig = bundle.Keep(operatorsv1alpha1.ClusterServiceVersionKind, config.Annotations)
	}
	var out []string
	for _, spec := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		keys := map[string]bool{}
		drop := func(kind string, sets ...map[string]string) {
			for _, set := range sets {
				_, dropped := bundle.Keep(kind, set)
				for _, key := range dropped {
					keys[key] = true
				}
			}
		}
		drop("Deployment", spec.Label)
		drop("Pod", spec.Spec.Template.Labels, spec.Spec.Template.Annotations)
		for _, key := range fromConfig {
			keys[key] = true
		}
		if len(keys) > 0 {
			out = append(out, bundle.LeftOut("Deployment "+csv.Namespace+"/"+spec.Name, slices.Sorted(maps.Keys(keys))))
		}
	}
	return out
}
