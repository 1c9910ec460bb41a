package serving

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Paths at which operators expect their certificate (OLM v0 contract): the first for operators built on the API server
// library, the second for those built on controller-runtime.
const (
	volumeAPI     = "apiservice-cert"
	pathAPI       = "/apiserver.local.config/certificates"
	volumeWebhook = "webhook-cert"
	pathWebhook   = "/tmp/k8s-webhook-server/serving-certs"
)

// Mount adds a Deployment's certificates to its Pod template at both paths. hash is the hash of the CA that issued
// them; a new hash rolls the Pods. If a certificate tool issues the certificates, hash is empty and Mount keeps
// existing mounts at these paths; otherwise it replaces them.
func Mount(pod *corev1.PodTemplateSpec, deployment, hash string) {
	mountAll(pod, deployment, hash, hash == "")
}

// Replace is like Mount, but always replaces existing mounts at the two paths.
func Replace(pod *corev1.PodTemplateSpec, deployment, hash string) {
	mountAll(pod, deployment, hash, false)
}

func mountAll(pod *corev1.PodTemplateSpec, deployment, hash string, yield bool) {
	if hash != "" {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[names.AnnotationCAHash] = hash
	}
	for _, m := range []struct{ volume, path, certificate, key string }{
		{volumeAPI, pathAPI, "apiserver.crt", "apiserver.key"},
		{volumeWebhook, pathWebhook, "tls.crt", "tls.key"},
	} {
		volume := corev1.Volume{Name: m.volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: cert.SecretName(deployment),
			Items:      []corev1.KeyToPath{{Key: cert.KeyCertificate, Path: m.certificate}, {Key: cert.KeyPrivate, Path: m.key}},
		}}}
		mount(&pod.Spec, volume, m.path, yield)
	}
}

func mount(pod *corev1.PodSpec, volume corev1.Volume, path string, yield bool) {
	if yield && mounted(pod, func(m corev1.VolumeMount) bool { return m.MountPath == path || m.Name == volume.Name }) {
		missing := !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
		if missing && mounted(pod, func(m corev1.VolumeMount) bool { return m.Name == volume.Name }) {
			pod.Volumes = append(pod.Volumes, volume)
		}
		return
	}
	displaced := map[string]bool{}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			clashes := m.MountPath == path
			if clashes {
				displaced[m.Name] = true
			}
			return clashes || m.Name == volume.Name
		})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: path})
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, m := range c.VolumeMounts {
			delete(displaced, m.Name)
		}
	}
	// A Pod waits for the Secrets of all its volumes, even if they are not mounted.
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name || displaced[v.Name] })
	pod.Volumes = append(pod.Volumes, volume)
}

func mounted(pod *corev1.PodSpec, match func(corev1.VolumeMount) bool) bool {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if slices.ContainsFunc(c.VolumeMounts, match) {
			return true
		}
	}
	return false
}
