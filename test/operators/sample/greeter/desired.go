package greeter

import (
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

const (
	// Image is the greeters' image. The embedded control plane does not map it to an executable, so it simulates the
	// greeters' Pods, which become Ready immediately.
	Image = "remit.dev/sample-greeter:v1"
	// KeyMessage is the ConfigMap's key for the message.
	KeyMessage = "message"

	labelGreeting = "sample.remit.dev/greeting"
)

func configMapName(greeting *samplev1.Greeting) string { return greeting.Name + "-greeting" }

func deploymentName(greeting *samplev1.Greeting) string { return greeting.Name + "-greeter" }

// desiredConfigMap returns a ConfigMap with the greeting's message, or with the default if the greeting has no message.
func desiredConfigMap(greeting *samplev1.Greeting, defaultMessage string) *corev1ac.ConfigMapApplyConfiguration {
	message := greeting.Spec.Message
	if message == "" {
		message = defaultMessage
	}
	return corev1ac.ConfigMap(configMapName(greeting), greeting.Namespace).
		WithLabels(labels(greeting)).
		WithOwnerReferences(owner(greeting)).
		WithData(map[string]string{KeyMessage: message})
}

// desiredDeployment returns the Deployment of the greeters, which read the message from the ConfigMap.
func desiredDeployment(greeting *samplev1.Greeting) *appsv1ac.DeploymentApplyConfiguration {
	message := corev1ac.EnvVar().WithName("MESSAGE").WithValueFrom(corev1ac.EnvVarSource().WithConfigMapKeyRef(
		corev1ac.ConfigMapKeySelector().WithName(configMapName(greeting)).WithKey(KeyMessage)))
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(corev1ac.Container().
			WithName("greeter").
			WithImage(Image).
			WithEnv(message).
			WithSecurityContext(corev1ac.SecurityContext().
				WithAllowPrivilegeEscalation(false).
				WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))))
	return appsv1ac.Deployment(deploymentName(greeting), greeting.Namespace).
		WithLabels(labels(greeting)).
		WithOwnerReferences(owner(greeting)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(greeting.Spec.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels(greeting))).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels(greeting)).WithSpec(pod)))
}

func labels(greeting *samplev1.Greeting) map[string]string {
	return map[string]string{labelGreeting: greeting.Name}
}

// owner returns an owner reference to the greeting. It omits blockOwnerDeletion, which would require permission on
// greetings/finalizers.
func owner(greeting *samplev1.Greeting) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(samplev1.GroupVersion.String()).
		WithKind("Greeting").
		WithName(greeting.Name).
		WithUID(greeting.UID).
		WithController(true)
}
