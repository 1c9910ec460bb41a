package deployment

import (
	"maps"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// configure applies a Subscription's config to a Deployment (contract 1.2). config.selector is ignored, as in OLM.
func configure(d *appsv1.Deployment, config *operatorsv1alpha1.SubscriptionConfig) {
	if config == nil {
		return
	}
	pod := &d.Spec.Template.Spec
	for _, c := range containers(pod) {
		configureContainer(c, config)
	}
	for _, v := range config.Volumes {
		pod.Volumes = withVolume(pod.Volumes, v)
	}
	for _, t := range config.Tolerations {
		if !slices.ContainsFunc(pod.Tolerations, func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, t) }) {
			pod.Tolerations = append(pod.Tolerations, t)
		}
	}
	if len(config.NodeSelector) > 0 {
		pod.NodeSelector = maps.Clone(config.NodeSelector)
	}
	pod.Affinity = withAffinity(pod.Affinity, config.Affinity)
	annotations := ofPods(config.Annotations)
	d.Annotations = withMissing(d.Annotations, annotations)
	d.Spec.Template.Annotations = withMissing(d.Spec.Template.Annotations, annotations)
}

func configureContainer(c *corev1.Container, config *operatorsv1alpha1.SubscriptionConfig) {
	for _, env := range config.Env {
		c.Env = withEnv(c.Env, *env.DeepCopy())
	}
	for _, from := range config.EnvFrom {
		if !slices.ContainsFunc(c.EnvFrom, func(have corev1.EnvFromSource) bool { return equality.Semantic.DeepEqual(have, from) }) {
			c.EnvFrom = append(c.EnvFrom, *from.DeepCopy())
		}
	}
	for _, m := range config.VolumeMounts {
		c.VolumeMounts = withMount(c.VolumeMounts, m)
	}
	if config.Resources != nil {
		c.Resources = *config.Resources.DeepCopy()
	}
}

func withVolume(list []corev1.Volume, v corev1.Volume) []corev1.Volume {
	if i := slices.IndexFunc(list, func(have corev1.Volume) bool { return have.Name == v.Name }); i >= 0 {
		list[i] = *v.DeepCopy()
		return list
	}
	return append(list, *v.DeepCopy())
}

// withMount replaces a mount with the same path, because a container cannot have two.
func withMount(list []corev1.VolumeMount, m corev1.VolumeMount) []corev1.VolumeMount {
	if i := slices.IndexFunc(list, func(have corev1.VolumeMount) bool { return have.MountPath == m.MountPath }); i >= 0 {
		list[i] = m
		return list
	}
	return append(list, m)
}

// withAffinity replaces each part that the config sets; an empty part removes it, and an empty affinity removes all
// of them.
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

// withMissing adds missing keys and overrides nothing.
func withMissing(have, more map[string]string) map[string]string {
	for k, v := range more {
		if _, taken := have[k]; taken {
			continue
		}
		if have == nil {
			have = map[string]string{}
		}
		have[k] = v
	}
	return have
}
