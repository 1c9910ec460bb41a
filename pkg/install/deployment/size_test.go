package deployment_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// sized returns the input for n Deployments, each with a number of containers.
func sized(deployments, containers int, config *operatorsv1alpha1.SubscriptionConfig) deployment.Input {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Name, csv.Namespace = "op.v1", "ops"
	specs := make([]operatorsv1alpha1.StrategyDeploymentSpec, deployments)
	for i := range specs {
		specs[i] = operatorsv1alpha1.StrategyDeploymentSpec{Name: fmt.Sprint("d", i), Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: make([]corev1.Container, containers)}},
		}}
	}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = specs
	return deployment.Input{CSV: csv, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: "ops", Package: "op"}, CSV: "op.v1"}, Config: config}
}

// entries returns a config in which the given lists have n entries each.
func entries(n int, lists ...string) *operatorsv1alpha1.SubscriptionConfig {
	c := &operatorsv1alpha1.SubscriptionConfig{}
	for i := range n {
		name := fmt.Sprint("n", i)
		for _, list := range lists {
			switch list {
			case "env":
				c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: strings.Repeat("x", 20)})
			case "envFrom":
				c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{Prefix: name, SecretRef: &corev1.SecretEnvSource{Optional: ptr.To(true)}})
			case "tolerations":
				c.Tolerations = append(c.Tolerations, corev1.Toleration{Key: name, TolerationSeconds: ptr.To(int64(i))})
			case "volumes":
				c.Volumes = append(c.Volumes, corev1.Volume{Name: name})
			case "volumeMounts":
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
			}
		}
	}
	return c
}

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A CSV of 90 KB and a Subscription must not make the program allocate gigabytes.
func TestProductsOfSizesAreRefused(t *testing.T) {
	annotated := sized(1_500, 1, nil)
	annotated.CSV.Annotations = map[string]string{}
	for i := range 20_000 {
		annotated.CSV.Annotations[fmt.Sprint("a", i)] = "x"
	}
	fewer := sized(500, 1, nil)
	fewer.CSV.Annotations = annotated.CSV.Annotations
	targets := sized(200, 1, nil)
	targets.Group = map[string]string{"olm.targetNamespaces": strings.Repeat("x", 1<<20)}
	targets.CSV.Annotations = map[string]string{}
	long := sized(1, 1_000, entries(100, "env", "volumeMounts"))
	for name, row := range map[string]struct {
		in   deployment.Input
		want string
	}{
		"5,000 limits":              {sized(1, 3_000, entries(5_000, "env")), "spec.config of the Subscription, or deploymentConfig of the ClusterExtension: env has 5000 entries; at most 1000 are allowed"},
		"containers × config":       {sized(1, 3_000, entries(1_000, "env", "envFrom")), `Deployment "d0" would need at least`},
		"1,000 × 100":               {long, `Deployment "d0" would need at least`},
		"deployments":               {annotated, "the install strategy has 1500 deployments; at most 1000 are allowed"},
		"deployments × annotations": {fewer, "the Deployments would need at least"},
		"deployments × targets":     {targets, "the Deployments would need at least"},
		"deployments × config":      {sized(400, 1, entries(1_000, "volumes", "tolerations")), "the Deployments would need at least"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			size := allocated(func() { _, err = deployment.Desired(row.in) })
			require.ErrorContains(t, err, row.want)
			require.Less(t, size, uint64(16<<20), "it is refused before it is rendered")
		})
	}
	_, err := deployment.Desired(sized(20, 5, entries(100, "env", "envFrom", "volumes", "volumeMounts", "tolerations")))
	require.NoError(t, err)
}

func TestEqualEntriesReplaceEachOther(t *testing.T) {
	in := sized(1, 1, &operatorsv1alpha1.SubscriptionConfig{
		Tolerations: []corev1.Toleration{{Key: "a"}, {Key: "a", TolerationSeconds: ptr.To(int64(1))}, {Key: "a", TolerationSeconds: ptr.To(int64(1))}},
		EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{}}, {SecretRef: &corev1.SecretEnvSource{}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{}}, {},
			{SecretRef: &corev1.SecretEnvSource{Optional: ptr.To(false)}}, {SecretRef: &corev1.SecretEnvSource{Optional: ptr.To(false)}},
		},
		Volumes: []corev1.Volume{{Name: "b", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	})
	pod := &in.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: "a"}, {Name: "b"}, {Name: "b"}}
	all, err := deployment.Desired(in)
	require.NoError(t, err)
	got := all[0].Spec.Template.Spec
	require.Equal(t, in.Config.Tolerations[:2], got.Tolerations)
	require.Len(t, got.Containers[0].EnvFrom, 4)
	require.Equal(t, []corev1.Volume{{Name: "a"}, in.Config.Volumes[0], {Name: "b"}}, got.Volumes, "only the first is replaced")
	got.Volumes[1].EmptyDir.Medium = corev1.StorageMediumMemory
	require.Empty(t, in.Config.Volumes[0].EmptyDir.Medium, "the cached config is not shared")
}
