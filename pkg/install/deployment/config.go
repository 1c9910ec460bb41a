package deployment

import (
	"maps"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// configure applies a Subscription's config to a Deployment (OLM v0 contract). config.selector is ignored, as in OLM.
func configure(d *appsv1.Deployment, config *operatorsv1alpha1.SubscriptionConfig) {
	if config == nil {
		return
	}
	pod := &d.Spec.Template.Spec
	for _, c := range containers(pod) {
		configureContainer(c, config)
	}
	for _, v := range config.Volumes {
		pod.Volumes = put(pod.Volumes, *v.DeepCopy(), func(have corev1.Volume) bool { return have.Name == v.Name })
	}
	for _, t := range config.Tolerations {
		pod.Tolerations = put(pod.Tolerations, t, func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, t) })
	}
	if len(config.NodeSelector) > 0 {
		pod.NodeSelector = maps.Clone(config.NodeSelector)
	}
	pod.Affinity = withAffinity(pod.Affinity, config.Affinity)
	annotations := harmlessForPods(config.Annotations)
	d.Annotations = withMissing(d.Annotations, annotations)
	d.Spec.Template.Annotations = withMissing(d.Spec.Template.Annotations, annotations)
}

func configureContainer(c *corev1.Container, config *operatorsv1alpha1.SubscriptionConfig) {
	for _, env := range config.Env {
		c.Env = withEnv(c.Env, *env.DeepCopy())
	}
	for _, from := range config.EnvFrom {
		c.EnvFrom = put(c.EnvFrom, *from.DeepCopy(), func(have corev1.EnvFromSource) bool { return equality.Semantic.DeepEqual(have, from) })
	}
	for _, m := range config.VolumeMounts { // a container cannot have two mounts with the same path
		c.VolumeMounts = put(c.VolumeMounts, m, func(have corev1.VolumeMount) bool { return have.MountPath == m.MountPath })
	}
	if config.Resources != nil {
		c.Resources = *config.Resources.DeepCopy()
	}
}

// put replaces the first element for which same returns true, or appends v if there is none.
func put[T any](list []T, v T, same func(have T) bool) []T {
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = v
		return list
	}
	return append(list, v)
}

// withAffinity replaces each kind of affinity that the config sets. An empty kind removes the existing one, and an
// empty affinity removes all kinds.
func withAffinity(have, config *corev1.Affinity) *corev1.Affinity {
	if config == nil {
		return have
	}
	if *config == (corev1.Affinity{}) {
		return nil
	}
	out := have.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if a := config.NodeAffinity; a != nil {
		out.NodeAffinity = nilIfEmpty(a, corev1.NodeAffinity{})
	}
	if a := config.PodAffinity; a != nil {
		out.PodAffinity = nilIfEmpty(a, corev1.PodAffinity{})
	}
	if a := config.PodAntiAffinity; a != nil {
		out.PodAntiAffinity = nilIfEmpty(a, corev1.PodAntiAffinity{})
	}
	if *out == (corev1.Affinity{}) {
		return nil
	}
	return out
}

func nilIfEmpty[T any](value *T, empty T) *T {
	if equality.Semantic.DeepEqual(*value, empty) {
		return nil
	}
	out := *value
	return &out
}

// withMissing adds missing keys without overriding existing ones.
func withMissing(have, more map[string]string) map[string]string {
	if len(more) == 0 {
		return have
	}
	out := maps.Clone(more)
	maps.Copy(out, have)
	return out
}
