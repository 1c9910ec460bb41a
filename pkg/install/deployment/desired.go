package deployment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// maxAnnotation is the maximum length, in bytes, of the value of an annotation that is copied to Pods.
const maxAnnotation = 4 << 10

// Input contains the data from which the Deployments of one install are rendered. CSV and Owner are required.
type Input struct {
	CSV   *operatorsv1alpha1.ClusterServiceVersion
	Owner ownerutil.Owner
	// Group contains the annotations that inform an operator about its OperatorGroup and target namespaces.
	Group map[string]string
	// Config is the Subscription's config, or nil.
	Config *operatorsv1alpha1.SubscriptionConfig
	// Budget is what the Deployments are drawn from; nil means a new one of MaxBytes.
	Budget *budget.Budget
	// Pods is called last and may modify the Pod template of a Deployment; nil means no modification.
	Pods func(deployment string, pod *corev1.PodTemplateSpec)
}

// GroupAnnotations returns the annotations that describe an OperatorGroup and its target namespaces to users and tools
// and, through the Pods, to the operator.
func GroupAnnotations(group, namespace string, targets []string) map[string]string {
	out := TargetAnnotations(namespace, targets)
	out[names.AnnotationOperatorGroup] = group
	return out
}

// TargetAnnotations returns the annotations that tell an operator its own namespace and its target namespaces.
func TargetAnnotations(namespace string, targets []string) map[string]string {
	return map[string]string{
		names.AnnotationOperatorNamespace: namespace,
		names.AnnotationTargetNamespaces:  strings.Join(slices.Sorted(slices.Values(targets)), ","),
	}
}

// Desired returns the Deployments of the install strategy, in the CSV's order. It returns an error only for a defect
// in the CSV or the config, which only their authors can fix.
func Desired(in Input) ([]*appsv1.Deployment, error) {
	if err := checkSize(in); err != nil {
		return nil, err
	}
	in.Config = in.Config.DeepCopy() // all containers share its parts, but not with the cached Subscription
	specs := in.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	out := make([]*appsv1.Deployment, 0, len(specs))
	for i := range specs {
		d, err := render(in, &specs[i])
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func render(in Input, spec *operatorsv1alpha1.StrategyDeploymentSpec) (*appsv1.Deployment, error) {
	labels, _ := bundle.Keep("Deployment", spec.Label)
	d := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: spec.Name, Namespace: in.Owner.Namespace, OwnerReferences: []metav1.OwnerReference{in.Owner.Reference()},
		},
		Spec: *spec.Spec.DeepCopy(),
	}
	d.Spec.RevisionHistoryLimit = ptr.To(int32(1))
	pod := &d.Spec.Template
	pod.ObjectMeta = metav1.ObjectMeta{Annotations: podAnnotations(in, pod.Annotations), Labels: harmlessForPods(pod.Labels)}
	if d.Spec.Selector != nil { // a selector must not use labels that the Pods do not have
		d.Spec.Selector.MatchLabels = harmlessForPods(d.Spec.Selector.MatchLabels)
	}
	pod.Spec.ServiceAccountName = ServiceAccountName(&pod.Spec)
	pod.Spec.DeprecatedServiceAccount = ""
	configure(d, in.Config)
	uniqueEnv(&pod.Spec)
	if in.Owner.Extension == "" { // a ClusterExtension has no OperatorCondition
		for _, c := range containers(&pod.Spec) {
			c.Env = withEnv(c.Env, corev1.EnvVar{Name: names.EnvOperatorConditionName, Value: in.CSV.Name})
		}
	}
	if in.Pods != nil {
		in.Pods(spec.Name, pod)
	}

	encoded, err := json.Marshal(d.Spec)
	if err != nil {
		return nil, fmt.Errorf("deployment %q: %w", spec.Name, err)
	}
	d.Labels = withMissing(in.Owner.Labels(), labels) // a CSV must not override owner labels
	d.Labels[names.LabelDeploymentSpecHash] = ownerutil.Hash(string(encoded))
	return d, nil
}

// SpecOf returns the Deployment with this name in the CSV's install strategy, or nil if there is none.
func SpecOf(csv *operatorsv1alpha1.ClusterServiceVersion, name string) *operatorsv1alpha1.StrategyDeploymentSpec {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	if i := slices.IndexFunc(specs, func(s operatorsv1alpha1.StrategyDeploymentSpec) bool { return s.Name == name }); i >= 0 {
		return &specs[i]
	}
	return nil
}

// ServiceAccountName returns the ServiceAccount that Pods with this spec run as. Like the API server, it uses the
// deprecated field if serviceAccountName is empty.
func ServiceAccountName(pod *corev1.PodSpec) string {
	return cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount, bundle.DefaultServiceAccount)
}

// podAnnotations merges the annotations of the template, the CSV and the OperatorGroup; later ones override earlier
// ones.
func podAnnotations(in Input, template map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, harmlessForPods(template))
	for k, v := range in.CSV.Annotations {
		if copied(k, v) {
			out[k] = v
		}
	}
	for _, k := range []string{names.AnnotationOperatorGroup, names.AnnotationOperatorNamespace, names.AnnotationTargetNamespaces} {
		delete(out, k)
	}
	maps.Copy(out, in.Group)
	return out
}

// harmlessForPods returns the labels or annotations without those that other programs in the cluster act on.
func harmlessForPods(all map[string]string) map[string]string {
	kept, _ := bundle.Keep("Pod", all)
	return kept
}

// copied reports whether an annotation of the CSV is copied to the Pods (escape suite 50). All others belong in the Pod template, where
// reviewers expect them.
func copied(key, value string) bool { return bundle.ForDisplay(key) && len(value) <= maxAnnotation }

// withEnv replaces the variable with the same name, or appends env if there is none.
func withEnv(list []corev1.EnvVar, env corev1.EnvVar) []corev1.EnvVar {
	return merge(list, []corev1.EnvVar{env}, envKey)
}

// uniqueEnv keeps only the last of several variables with the same name, which is the one that takes effect. Some
// published bundles have such duplicates, and server-side apply rejects them.
func uniqueEnv(pod *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			list[i].Env = merge(nil, list[i].Env, envKey)
		}
	}
}

// containers returns the Pod's containers, but not its init containers, which finish before the operator runs.
func containers(pod *corev1.PodSpec) []*corev1.Container {
	out := make([]*corev1.Container, 0, len(pod.Containers))
	for i := range pod.Containers {
		out = append(out, &pod.Containers[i])
	}
	return out
}
