package serving_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

var update = flag.Bool("update", false, "rewrite golden files")

type csv = operatorsv1alpha1.ClusterServiceVersion

// newCSV returns a CSV with three Deployments: the second serves an API and webhooks, the third serves webhooks.
func newCSV(edits ...func(*csv)) *csv {
	c := &csv{}
	c.Name, c.Namespace, c.UID = "demo.v1.0.0", "t1", "csv-uid"
	for _, name := range []string{"plain", "api.server", "hooks"} {
		spec := operatorsv1alpha1.StrategyDeploymentSpec{Name: name}
		spec.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		spec.Spec.Template.Spec.ServiceAccountName = name + "-sa"
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, spec)
	}
	c.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{
		{DeploymentName: "hooks", ContainerPort: 443, TargetPort: ptr.To(intstr.FromInt32(9443))},
		{DeploymentName: "hooks", ContainerPort: 443, TargetPort: ptr.To(intstr.FromInt32(9443))},
		{DeploymentName: "hooks", ContainerPort: 8443, TargetPort: ptr.To(intstr.FromString("https"))},
		{DeploymentName: "api.server"},
	}
	c.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{DeploymentName: "api.server", ContainerPort: 5443}}
	for _, e := range edits {
		e(c)
	}
	return c
}

func input(c *csv) serving.Input {
	return serving.Input{CSV: c, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: c.Name, UID: c.UID}}
}

func port(port int32, target intstr.IntOrString) serving.Port {
	return serving.Port{Port: port, Target: target}
}

func TestServed(t *testing.T) {
	require.Equal(t, []serving.Deployment{
		{Name: "api.server", APIs: true, Ports: []serving.Port{port(443, intstr.FromInt32(443)), port(5443, intstr.FromInt32(5443))}},
		{Name: "hooks", Ports: []serving.Port{port(443, intstr.FromInt32(9443)), port(8443, intstr.FromString("https"))}},
	}, serving.Served(newCSV()))
	require.Empty(t, serving.Served(&csv{}))
}

func TestAnEmptyTargetPortIsThePortOfTheService(t *testing.T) {
	for _, none := range []intstr.IntOrString{intstr.FromInt32(0), intstr.FromString("")} {
		got := serving.Served(newCSV(func(c *csv) {
			c.Spec.WebhookDefinitions = c.Spec.WebhookDefinitions[1:2]
			c.Spec.WebhookDefinitions[0].TargetPort = &none
		}))
		hooks := got[slices.IndexFunc(got, func(d serving.Deployment) bool { return d.Name == "hooks" })]
		require.Equal(t, []serving.Port{port(443, intstr.FromInt32(443))}, hooks.Ports)
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, serving.Validate(newCSV()))
	require.ErrorContains(t, serving.Validate(newCSV(func(c *csv) {
		c.Spec.WebhookDefinitions[1].TargetPort = nil
	})), `port 443 of deployment "hooks" has two targets, 443 and 9443`)
	require.ErrorContains(t, serving.Validate(newCSV(func(c *csv) {
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[2].Name = "api-server"
		for i := range c.Spec.WebhookDefinitions[:3] {
			c.Spec.WebhookDefinitions[i].DeploymentName = "api-server"
		}
	})), `would share Service "api-server-service"`)
	require.ErrorContains(t, serving.Validate(newCSV(func(c *csv) {
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[2].Spec.Selector = nil
	})), "has no labels by which a Service can select its Pods")
}

func golden(t *testing.T, name string, objects ...*unstructured.Unstructured) {
	t.Helper()
	var docs []string
	for _, o := range objects {
		raw, err := yaml.Marshal(o.Object)
		require.NoError(t, err)
		docs = append(docs, string(raw))
	}
	got := strings.Join(docs, "---\n")
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestObjectsHaveTheNamesAndLabelsOfTheContract(t *testing.T) {
	in := input(newCSV())
	hooks := serving.Served(in.CSV)[1]
	service, err := in.Service(hooks, []string{"b", "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, serving.Recorded(service))
	secret, err := in.Secret(hooks, cert.Set{})
	require.NoError(t, err)
	access, err := in.Access(hooks)
	require.NoError(t, err)
	golden(t, "hooks.yaml", append([]*unstructured.Unstructured{service, secret}, access...)...)
}

func TestTheSecretContainsTheSet(t *testing.T) {
	in := input(newCSV())
	pair, err := cert.Policy{Life: time.Hour}.Issue(time.Now(), cert.Hosts("hooks", "t1"))
	require.NoError(t, err)
	secret, err := in.Secret(serving.Served(in.CSV)[1], cert.Set{Current: pair})
	require.NoError(t, err)
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	require.NoError(t, err)
	require.Len(t, data, 3)
	require.Equal(t, cert.Hash(pair.CA), secret.GetAnnotations()["olmcahash"])
}

func TestPodLabelsReplaceASelectorWithOnlyExpressions(t *testing.T) {
	in := input(newCSV(func(c *csv) {
		spec := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[2].Spec
		spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}}
		spec.Template.Labels = map[string]string{"app": "x", "tier": "y"}
	}))
	service, err := in.Service(serving.Served(in.CSV)[1], nil)
	require.NoError(t, err)
	selector, _, err := unstructured.NestedStringMap(service.Object, "spec", "selector")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"app": "x", "tier": "y"}, selector)
}

func TestToolOf(t *testing.T) {
	annotated := func(key, value string) *operatorsv1alpha1.SubscriptionConfig {
		return &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{key: value, "other": "x"}}
	}
	for _, tc := range []struct {
		name   string
		csv    map[string]string
		config *operatorsv1alpha1.SubscriptionConfig
		want   map[string]string
		wrong  string
	}{
		{"no annotations", nil, nil, nil, ""},
		{"other annotations", map[string]string{"x": "y"}, annotated("a", "b"), nil, ""},
		{"cert-manager, selected by the Subscription", nil, annotated(serving.InjectCAFrom, "t1/demo"), map[string]string{serving.InjectCAFrom: "t1/demo"}, ""},
		{"service-ca, selected by the CSV", map[string]string{serving.InjectCABundle: "true"}, nil, map[string]string{serving.InjectCABundle: "true"}, ""},
		{"the Subscription takes precedence", map[string]string{serving.InjectCABundle: "true"}, annotated(serving.InjectCAFrom, "t1/demo"), map[string]string{serving.InjectCAFrom: "t1/demo"}, ""},
		{"disabled", map[string]string{serving.InjectCABundle: "false"}, nil, nil, ""},
		{"a certificate in another namespace", nil, annotated(serving.InjectCAFromSecret, "kube-system/crown"), nil, `is not in namespace "t1"`},
		{"a certificate in a namespace with the same prefix", nil, annotated(serving.InjectCAFrom, "t11/demo"), nil, `is not in namespace "t1"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool, err := serving.ToolOf(newCSV(func(c *csv) { c.Annotations = tc.csv }), tc.config)
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, tool.Configuration("hooks"))
		})
	}
	tool, err := serving.ToolOf(newCSV(func(c *csv) { c.Spec.Annotations = map[string]string{serving.InjectCABundle: "true"} }), nil)
	require.NoError(t, err)
	in := input(newCSV())
	in.Tool = tool
	service, err := in.Service(serving.Served(in.CSV)[1], nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"service.beta.openshift.io/serving-cert-secret-name": "hooks-service-cert"}, service.GetAnnotations())
}

func pod() *corev1.PodTemplateSpec {
	secret := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{secret("own"), secret("cert"), secret("shared"), secret("webhook-cert")},
		InitContainers: []corev1.Container{
			{Name: "init", VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}},
		},
		Containers: []corev1.Container{
			{Name: "a", VolumeMounts: []corev1.VolumeMount{{Name: "own", MountPath: "/own"}, {Name: "cert", MountPath: "/tmp/k8s-webhook-server/serving-certs"}}},
			{Name: "b", VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: "/apiserver.local.config/certificates"}, {Name: "webhook-cert", MountPath: "/x"}}},
		},
	}}
}

func TestMountReplacesMountsAtTheContractsPaths(t *testing.T) {
	got := pod()
	serving.Mount(got, "hooks", "hash")
	require.Equal(t, "hash", got.Annotations["olmcahash"])
	var volumes []string
	for _, v := range got.Spec.Volumes {
		volumes = append(volumes, v.Name+"="+v.Secret.SecretName)
	}
	require.Equal(t, []string{"own=own", "shared=shared", "apiservice-cert=hooks-service-cert", "webhook-cert=hooks-service-cert"}, volumes,
		"a volume without mounts is removed: its Secret may not exist")
	certificates := []corev1.VolumeMount{
		{Name: "apiservice-cert", MountPath: "/apiserver.local.config/certificates"},
		{Name: "webhook-cert", MountPath: "/tmp/k8s-webhook-server/serving-certs"},
	}
	require.Equal(t, append([]corev1.VolumeMount{{Name: "own", MountPath: "/own"}}, certificates...), got.Spec.Containers[0].VolumeMounts)
	require.Equal(t, certificates, got.Spec.Containers[1].VolumeMounts)
	require.Equal(t, []corev1.KeyToPath{{Key: "tls.crt", Path: "apiserver.crt"}, {Key: "tls.key", Path: "apiserver.key"}}, got.Spec.Volumes[2].Secret.Items)
	require.Equal(t, []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"}, {Key: "tls.key", Path: "tls.key"}}, got.Spec.Volumes[3].Secret.Items)

	again := got.DeepCopy()
	serving.Mount(again, "hooks", "hash")
	require.Equal(t, got, again)
}

func TestMountYieldsToATool(t *testing.T) {
	got, want := pod(), pod()
	serving.Mount(got, "hooks", "")
	require.Equal(t, want, got, "existing mounts are kept")

	bare := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	serving.Mount(bare, "hooks", "")
	require.Len(t, bare.Spec.Volumes, 2)
	require.Empty(t, bare.Annotations)
}

func TestMountedVolumesAreDefined(t *testing.T) {
	for _, hash := range []string{"hash", ""} {
		got := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{{Name: "webhook-cert", MountPath: "/x"}}}},
			Containers:     []corev1.Container{{Name: "a", VolumeMounts: []corev1.VolumeMount{{Name: "apiservice-cert", MountPath: "/y"}}}},
		}}
		serving.Mount(got, "hooks", hash)
		require.Len(t, got.Spec.Volumes, 2, hash)
		for _, v := range got.Spec.Volumes {
			require.Equal(t, "hooks-service-cert", v.Secret.SecretName)
		}
	}
}
