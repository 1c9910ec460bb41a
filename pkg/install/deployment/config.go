package deployment

import (
	"fmt"
	"maps"

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
	pod.Volumes = merge(pod.Volumes, config.Volumes, func(v *corev1.Volume) string { return v.Name })
	pod.Tolerations = merge(pod.Tolerations, config.Tolerations, tolerationKey)
	if len(config.NodeSelector) > 0 {
		pod.NodeSelector = maps.Clone(config.NodeSelector)
	}
	pod.Affinity = withAffinity(pod.Affinity, config.Affinity)
	annotations := harmlessForPods(config.Annotations)
	d.Annotations = withMissing(d.Annotations, annotations)
	d.Spec.Template.Annotations = withMissing(d.Spec.Template.Annotations, annotations)
}

func configureContainer(c *corev1.Container, config *operatorsv1alpha1.SubscriptionConfig) {
	c.Env = merge(c.Env, config.Env, envKey)
	c.EnvFrom = merge(c.EnvFrom, config.EnvFrom, envFromKey)
	// a container cannot have two mounts with the same path
	c.VolumeMounts = merge(c.VolumeMounts, config.VolumeMounts, func(m *corev1.VolumeMount) string { return m.MountPath })
	if config.Resources != nil {
		c.Resources = *config.Resources.DeepCopy()
	}
}

func envKey(env *corev1.EnvVar) string { return env.Name }

// tolerationKey and envFromKey return values that are equal if and only if the elements are.
func tolerationKey(t *corev1.Toleration) any {
	seconds := "none"
	if t.TolerationSeconds != nil {
		seconds = fmt.Sprint(*t.TolerationSeconds)
	}
	plain := *t
	plain.TolerationSeconds = nil
	return struct {
		corev1.Toleration

		seconds string
	}{plain, seconds}
}

func envFromKey(from *corev1.EnvFromSource) any {
	type reference struct {
		isSet    bool
		name     string
		optional string
	}
	of := func(ref *corev1.LocalObjectReference, optional *bool) reference {
		if optional == nil {
			return reference{true, ref.Name, ""}
		}
		return reference{true, ref.Name, fmt.Sprint(*optional)}
	}
	var configMap, secret reference
	if from.ConfigMapRef != nil {
		configMap = of(&from.ConfigMapRef.LocalObjectReference, from.ConfigMapRef.Optional)
	}
	if from.SecretRef != nil {
		secret = of(&from.SecretRef.LocalObjectReference, from.SecretRef.Optional)
	}
	return struct {
		prefix            string
		configMap, secret reference
	}{from.Prefix, configMap, secret}
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
