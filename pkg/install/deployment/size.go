package deployment

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/budget"
)

const (
	// MaxDeployments is the maximum number of Deployments of one ClusterServiceVersion.
	MaxDeployments = 1_000
	// MaxBytes is the memory of all Deployments of one ClusterServiceVersion, as Go types. Until they are applied, they take a few
	// times as much, for each worker.
	MaxBytes = 16 << 20
	// MaxConfigEntries is the maximum number of entries of each list and map in a Subscription's config.
	MaxConfigEntries = 1_000
)

// CheckConfig returns an error, which names the field, if a list or map of a Subscription's config has too many entries, or if a name or
// a key in it is not valid.
func CheckConfig(config *operatorsv1alpha1.SubscriptionConfig) error {
	if err := budget.CheckLists(config, MaxConfigEntries); err != nil {
		return err
	}
	return bundle.CheckNames("", config)
}

// checkSize returns an error if the Deployments would be larger than the API server and this program can take. Every
// container gets the environment and the mounts of the config, every Pod its other parts, and every Deployment the
// annotations of the ClusterServiceVersion, its OperatorGroup and the config.
func checkSize(in Input) error {
	specs := in.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	if n := len(specs); n > MaxDeployments {
		return fmt.Errorf("the install strategy has %d deployments; at most %d are allowed", n, MaxDeployments)
	}
	if err := CheckConfig(in.Config); err != nil {
		return fmt.Errorf("spec.config of the Subscription, or deploymentConfig of the ClusterExtension: %w", err)
	}
	b := in.Budget
	if b == nil {
		b = budget.New("the Deployments", MaxBytes)
	}
	container, pod := sizeOf(in.Config)
	pod = pod.Plus(budget.Of(podAnnotations(in, nil))).Plus(budget.Of(in.Owner.Labels()))
	for i := range specs {
		s := budget.Of(&specs[i]).Plus(pod).Plus(container.Times(len(specs[i].Spec.Template.Spec.Containers)))
		s.Memory += int64(budget.Of(appsv1.Deployment{}).Memory)
		s.Memory = s.Decoded() // they are converted to maps
		if err := b.DrawObject(fmt.Sprintf("Deployment %q", specs[i].Name), s); err != nil {
			return fmt.Errorf("%w: use fewer containers and deployments, or fewer annotations, or a smaller spec.config", err)
		}
	}
	return nil
}

// sizeOf returns the sizes of what a config adds to each container and to each Pod and its Deployment.
func sizeOf(config *operatorsv1alpha1.SubscriptionConfig) (container, pod budget.Size) {
	if config == nil {
		return container, pod
	}
	container = sum(config.Env, config.EnvFrom, config.VolumeMounts, config.Resources)
	pod = sum(config.Volumes, config.Tolerations, config.NodeSelector, config.Affinity).Plus(budget.Of(config.Annotations).Times(2))
	return container, pod
}

func sum(parts ...any) (s budget.Size) {
	for _, part := range parts {
		s = s.Plus(budget.Of(part))
	}
	return s
}

// merge replaces the elements of list that have the key of an element of more, and appends all other elements of more. It
// takes linear time. Of several elements of list with the same key, it replaces the first.
func merge[T any, K comparable](list, more []T, key func(*T) K) []T {
	if len(more) == 0 {
		return list
	}
	at := make(map[K]int, len(list)+len(more))
	for i := range slices.Backward(list) {
		at[key(&list[i])] = i
	}
	for i := range more {
		k := key(&more[i])
		if have, ok := at[k]; ok {
			list[have] = more[i]
			continue
		}
		at[k] = len(list)
		list = append(list, more[i])
	}
	return list
}
