package controlplane_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/remit-olm/remit/test/env/controlplane"
)

const (
	soon  = 60 * time.Second
	tick  = 50 * time.Millisecond
	agent = "example.com/agent:v1"
)

// world is a namespace on a control plane. Pods with the agent's image run the test binary.
type world struct {
	t         *testing.T
	cp        *controlplane.Instance
	client    kubernetes.Interface
	namespace string
}

func newWorld(t *testing.T, cp *controlplane.Instance) *world {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, cp.MapImage(agent, exe))
	w := &world{t: t, cp: cp, client: kubernetes.NewForConfigOrDie(cp.Config())}
	namespace, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "cp-"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.namespace = namespace.Name
	t.Cleanup(w.explain)
	return w
}

// explain logs the statuses and logs of the Pods if the test has failed.
func (w *world) explain() {
	if !w.t.Failed() {
		return
	}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Log(err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		w.t.Logf("%s: %+v", pod.Name, pod.Status)
		logs, _ := filepath.Glob(filepath.Join(w.cp.Dir, "pods", w.namespace+"_"+pod.Name+"_*", "*.log")) // the pattern is valid
		for _, file := range logs {
			text, err := os.ReadFile(file)
			w.t.Logf("%s: %.2000s %v", file, text, err)
		}
	}
}

func (w *world) eventually(check func(c *require.Assertions)) {
	w.t.Helper()
	require.EventuallyWithT(w.t, func(c *collect) { check(require.New(c)) }, soon, tick)
}

func (w *world) secret(name string, data map[string]string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	_, err := w.client.CoreV1().Secrets(w.namespace).Create(w.t.Context(), secret, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) configMap(name string, data map[string]string) {
	w.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(w.t.Context(), m, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// mayReadConfigMaps creates a ServiceAccount that may read ConfigMaps and nothing else.
func (w *world) mayReadConfigMaps(account string) {
	w.t.Helper()
	ctx, meta := w.t.Context(), metav1.ObjectMeta{Name: account}
	_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = w.client.RbacV1().Roles(w.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = w.client.RbacV1().RoleBindings(w.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: w.namespace}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// agentPod returns a Pod that runs the agent in the given mode.
func agentPod(name, mode string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "agent", Image: agent,
				Env: []corev1.EnvVar{{Name: agentMode, Value: mode}, field("NAMESPACE", "metadata.namespace")},
			}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func mount(name, path string, source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
}

func secretSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)},
	}}
}

func (w *world) create(pod *corev1.Pod) {
	w.t.Helper()
	_, err := w.client.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) pod(c *require.Assertions, name string) *corev1.Pod {
	pod, err := w.client.CoreV1().Pods(w.namespace).Get(context.Background(), name, metav1.GetOptions{})
	c.NoError(err)
	return pod
}

func (w *world) isReady(name string) bool {
	for _, condition := range w.pod(require.New(w.t), name).Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (w *world) waitReady(name string) {
	w.t.Helper()
	w.eventually(func(c *require.Assertions) { c.True(w.isReady(name), "ready") })
}

// report queries the agent through the API server, which also proves that the Pod is reachable.
func (w *world) report(name string) agentReport {
	w.t.Helper()
	var r agentReport
	w.eventually(func(c *require.Assertions) {
		body, err := w.client.CoreV1().Pods(w.namespace).ProxyGet("http", name, "8080", "/report", nil).DoRaw(w.t.Context())
		c.NoError(err)
		c.NoError(json.Unmarshal(body, &r))
	})
	return r
}

func (w *world) waitExited(pids ...int) {
	w.t.Helper()
	w.eventually(func(c *require.Assertions) {
		for _, pid := range pids {
			c.False(alive(pid), "process %d", pid)
		}
	})
}

// alive reports whether a process is running. A zombie, which only waits for a busy parent, does not count.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func deployment(name, image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
			},
		},
	}
}
