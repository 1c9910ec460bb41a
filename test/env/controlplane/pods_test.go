package controlplane_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/test/env/controlplane"
)

type collect = assert.CollectT

var itoa = strconv.Itoa

func TestADeploymentOfAnUnmappedImageBecomesAvailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	web := deployment("web", "example.com/none:v1", 3)
	_, err := w.client.AppsV1().Deployments(w.namespace).Create(t.Context(), web, metav1.CreateOptions{})
	require.NoError(t, err)
	w.eventually(func(c *require.Assertions) {
		d, err := w.client.AppsV1().Deployments(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		c.NoError(err)
		c.EqualValues(3, d.Status.AvailableReplicas)
	})
}

func TestAProcessPodSeesItsEnvironmentAndOnlyItsOwnPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	w.mayReadConfigMaps("reader")
	w.configMap("settings", map[string]string{"color": "blue"})
	w.secret("login", map[string]string{"password": "one"})
	w.create(agentPod("a", "serve", func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = "reader"
		p.Annotations = map[string]string{"note": "hello"}
		c := &p.Spec.Containers[0]
		c.Command, c.Args = []string{"/manager", "--first"}, []string{"--color=$(COLOR)", "$(UNKNOWN)"}
		c.EnvFrom = []corev1.EnvFromSource{{Prefix: "S_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("login")}}}
		c.Env = append(c.Env,
			corev1.EnvVar{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("settings"), Key: "color"},
			}},
			corev1.EnvVar{Name: "ABSENT", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("nobody"), Key: "x", Optional: new(true)},
			}},
			field("NOTE", "metadata.annotations['note']"), field("IP", "status.podIP"), field("ACCOUNT", "spec.serviceAccountName"),
		)
	}, mount("login", "/secret", secretSource("login"))))

	r := w.report("a")
	require.Equal(t, []string{"--first", "--color=blue", "$(UNKNOWN)"}, r.Args)
	require.Equal(t, "one", r.Env["S_password"])
	require.Equal(t, "hello", r.Env["NOTE"])
	require.Equal(t, "reader", r.Env["ACCOUNT"])
	require.Equal(t, strings.Replace(r.Env["IP"], "10.", "127.", 1), r.Env["REMIT_POD_LISTEN_IP"])
	require.NotContains(t, r.Env, "ABSENT")
	require.Equal(t, "blue", r.OwnMap)
	require.Equal(t, "Forbidden", r.Secrets)
	require.Equal(t, "one", r.Secret)

	_, err := w.client.CoreV1().Secrets(w.namespace).Patch(t.Context(), "login", mergePatch,
		[]byte(`{"stringData":{"password":"two"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.eventually(func(c *require.Assertions) { c.Equal("two", w.report("a").Secret) })
	w.eventually(func(c *require.Assertions) {
		c.True(audited(c, w, "reader", "list", "secrets"), "the refused read must be in the audit log")
	})
}

func TestAProcessPodFollowsItsProbeAndItsLogsCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	w.configMap("gate", map[string]string{"open": "no"})
	source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("gate")}}
	w.create(agentPod("a", "serve", mount("gate", "/gate", source), func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = httpProbe("/readyz")
	}))
	w.report("a") // the process is running
	require.False(t, w.isReady("a"))
	w.setGate("yes")
	w.waitReady("a")
	w.setGate("no")
	w.eventually(func(c *require.Assertions) { c.False(w.isReady("a")) })

	log, err := w.client.CoreV1().Pods(w.namespace).GetLogs("a", &corev1.PodLogOptions{TailLines: new(int64(5))}).DoRaw(t.Context())
	require.NoError(t, err)
	require.Equal(t, "agent is up\n", string(log))
	follow, err := w.client.CoreV1().Pods(w.namespace).GetLogs("a", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	require.NoError(t, err)
	line, err := bufio.NewReader(follow).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "agent is up\n", line)
	require.NoError(t, follow.Close())
}

func TestDeletingAPodEndsItsProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	w.create(agentPod("a", "serve"))
	r := w.report("a")
	require.True(t, alive(r.PID) && alive(r.Child))
	require.NoError(t, w.client.CoreV1().Pods(w.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.waitExited(r.PID, r.Child)
	w.eventually(func(c *require.Assertions) {
		_, err := w.client.CoreV1().Pods(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
		c.True(apierrors.IsNotFound(err))
	})
}

func TestACrashingPodIsRestartedWithBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	w.create(agentPod("a", "crash"))
	w.eventually(func(c *require.Assertions) {
		status := w.pod(c, "a").Status
		c.Len(status.ContainerStatuses, 1)
		s := status.ContainerStatuses[0]
		c.GreaterOrEqual(s.RestartCount, int32(1))
		c.NotNil(s.State.Waiting)
		c.Equal("CrashLoopBackOff", s.State.Waiting.Reason)
		c.NotNil(s.LastTerminationState.Terminated)
		c.EqualValues(3, s.LastTerminationState.Terminated.ExitCode)
		c.Equal("Error", s.LastTerminationState.Terminated.Reason)
		c.Equal(corev1.PodRunning, status.Phase)
	})
}

func TestAPodThatFailsItsLivenessProbeIsRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	w.create(agentPod("a", "serve", func(p *corev1.Pod) {
		p.Spec.Containers[0].StartupProbe, p.Spec.Containers[0].LivenessProbe = httpProbe("/readyz"), httpProbe("/livez")
		p.Spec.Containers[0].StartupProbe.FailureThreshold = 30
	}))
	w.waitReady("a")
	first := w.report("a")
	_, err := w.client.CoreV1().Pods(w.namespace).ProxyGet("http", "a", "8080", "/infect", nil).DoRaw(t.Context())
	require.NoError(t, err)
	w.waitExited(first.PID, first.Child)
	w.eventually(func(c *require.Assertions) {
		c.GreaterOrEqual(w.pod(c, "a").Status.ContainerStatuses[0].RestartCount, int32(1)) // on a busy machine, a probe may fail again
		c.True(w.isReady("a"))
	})
	require.NotEqual(t, first.PID, w.report("a").PID)
}

func TestAPodWaitsForAMissingSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	w.create(agentPod("a", "serve", mount("login", "/secret", secretSource("late"))))
	w.eventually(func(c *require.Assertions) {
		statuses := w.pod(c, "a").Status.ContainerStatuses
		c.Len(statuses, 1)
		c.NotNil(statuses[0].State.Waiting)
		c.Equal("CreateContainerConfigError", statuses[0].State.Waiting.Reason)
		c.Contains(statuses[0].State.Waiting.Message, `secret "late" not found`)
	})
	w.secret("late", map[string]string{"password": "here"})
	require.Equal(t, "here", w.report("a").Secret)
}

func TestJobsComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controlplane.Shared(t))
	for name, image := range map[string]string{"process": agent, "pretended": "example.com/none:v1"} {
		spec := agentPod(name, "complete").Spec
		spec.Containers[0].Image, spec.RestartPolicy = image, corev1.RestartPolicyNever
		spec.InitContainers = []corev1.Container{{Name: "init", Image: image, Env: spec.Containers[0].Env}}
		_, err := w.client.BatchV1().Jobs(w.namespace).Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, name := range []string{"process", "pretended"} {
		w.eventually(func(c *require.Assertions) {
			job, err := w.client.BatchV1().Jobs(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
			c.NoError(err)
			c.EqualValues(1, job.Status.Succeeded, name)
			c.NotNil(job.Status.CompletionTime, name)
		})
	}
}

func (w *world) setGate(open string) {
	w.t.Helper()
	_, err := w.client.CoreV1().ConfigMaps(w.namespace).Patch(w.t.Context(), "gate", mergePatch,
		[]byte(`{"data":{"open":"`+open+`"}}`), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// auditEvent contains the fields of an audit log line that the tests use.
type auditEvent struct {
	Stage, Verb string
	User        struct{ Username string }
	ObjectRef   struct{ Resource string }
}

// audited reports whether the audit log contains a request with this verb and resource from the ServiceAccount in the
// test's namespace.
func audited(c *require.Assertions, w *world, account, verb, resource string) bool {
	f, err := os.Open(w.cp.AuditLog)
	c.NoError(err)
	defer func() { _ = f.Close() }()
	for d := json.NewDecoder(f); d.More(); {
		var e auditEvent
		if d.Decode(&e) != nil {
			return false // an incomplete line
		}
		if e.User.Username == "system:serviceaccount:"+w.namespace+":"+account && e.Verb == verb &&
			e.ObjectRef.Resource == resource && e.Stage == "ResponseComplete" {
			return true
		}
	}
	return false
}

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
