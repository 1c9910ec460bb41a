package pod

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/remit-olm/remit/controlplane/internal/image"
	"github.com/remit-olm/remit/controlplane/internal/process"
)

// shellImage is mapped to /bin/sh, which runs a container's command as a script.
const shellImage = "example.com/shell"

func shell(name, script string) corev1.Container {
	return corev1.Container{
		Name: name, Image: shellImage, Command: []string{"sh", "-c", script},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/shared"}},
	}
}

func newPod(policy corev1.RestartPolicy, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: corev1.PodSpec{
			RestartPolicy: policy, Containers: containers, TerminationGracePeriodSeconds: new(int64(1)),
			Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func newHost(t *testing.T, pod *corev1.Pod) *Host {
	t.Helper()
	launcher, err := process.New()
	require.NoError(t, err)
	return &Host{
		Client: fake.NewClientset(pod), Launcher: launcher, Dir: t.TempDir(),
		Images: image.Map{Fixed: map[string]string{shellImage: "/bin/sh"}},
	}
}

func reported(t require.TestingT, h *Host) corev1.PodStatus {
	pod, err := h.Client.CoreV1().Pods("ns").Get(context.Background(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	return pod.Status
}

// start runs a worker until the returned function is called, which waits until its processes have ended.
func start(t *testing.T, w *Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestInitContainersAndSidecarsRunInOrderBeforeTheMainOne(t *testing.T) {
	t.Parallel()
	sidecar := shell("sidecar", "echo sidecar >>shared/order; sleep 600")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod := newPod(corev1.RestartPolicyNever, shell("main", "echo main >>shared/order; cat shared/order"))
	pod.Spec.InitContainers = []corev1.Container{
		shell("first", "echo first >>shared/order"), sidecar,
		shell("second", "until grep -q sidecar shared/order; do sleep 0.1; done; echo second >>shared/order"),
	}
	h := newHost(t, pod)
	NewWorker(h, pod, h.Net.Pod(0, 1)).Run(t.Context())

	status := reported(t, h)
	require.Equal(t, corev1.PodSucceeded, status.Phase)
	require.EqualValues(t, 143, status.InitContainerStatuses[1].State.Terminated.ExitCode, "the sidecar ends with the Pod")
	log, err := os.ReadFile(h.LogFile(pod, "main"))
	require.NoError(t, err)
	require.Equal(t, "first\nsidecar\nsecond\nmain\n", string(log))
}

func TestAFailedInitContainerFailsAPodThatIsNeverRestarted(t *testing.T) {
	t.Parallel()
	pod := newPod(corev1.RestartPolicyNever, shell("main", "exit 0"))
	pod.Spec.InitContainers = []corev1.Container{shell("init", "exit 7")}
	h := newHost(t, pod)
	NewWorker(h, pod, h.Net.Pod(0, 1)).Run(t.Context())
	status := reported(t, h)
	require.Equal(t, corev1.PodFailed, status.Phase)
	require.EqualValues(t, 7, status.InitContainerStatuses[0].State.Terminated.ExitCode)
	require.Nil(t, status.ContainerStatuses[0].State.Terminated, "the container was never started")
}

func TestOnFailureRestartsUntilSuccess(t *testing.T) {
	t.Parallel()
	pod := newPod(corev1.RestartPolicyOnFailure, shell("main", "mkdir shared/again 2>/dev/null && exit 1; exit 0"))
	h := newHost(t, pod)
	NewWorker(h, pod, h.Net.Pod(0, 1)).Run(t.Context())
	status := reported(t, h)
	require.Equal(t, corev1.PodSucceeded, status.Phase)
	require.EqualValues(t, 1, status.ContainerStatuses[0].RestartCount)
}

func TestStoppingAWorkerEndsItsProcessAndCleaningKeepsTheLog(t *testing.T) {
	t.Parallel()
	pod := newPod(corev1.RestartPolicyAlways, shell("main", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30)) // the process ends much sooner
	h := newHost(t, pod)
	w := NewWorker(h, pod, h.Net.Pod(0, 1))
	stop := start(t, w)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		content, err := os.ReadFile(h.LogFile(pod, "main"))
		require.NoError(c, err)
		require.Equal(c, "up\n", string(content))
		require.Equal(c, corev1.PodRunning, reported(c, h).Phase)
	}, time.Minute, 10*time.Millisecond)
	stop()
	w.Clean()
	content, err := os.ReadFile(h.LogFile(pod, "main"))
	require.NoError(t, err)
	require.Equal(t, "up\nbye\n", string(content))
	require.NoDirExists(t, filepath.Join(h.PodDir(pod), "volumes"))
}

// If the Pod were reported as ended, the next start of the control plane would not run it again.
func TestAShutdownDoesNotReportThatProcessesEnded(t *testing.T) {
	t.Parallel()
	sidecar := shell("sidecar", "trap '' TERM; touch shared/up; while :; do sleep 0.05; done")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod := newPod(corev1.RestartPolicyAlways, shell("main", "sleep 600"))
	pod.Spec.InitContainers = []corev1.Container{sidecar, shell("second", "until test -f shared/up; do sleep 0.05; done")}
	h := newHost(t, pod)
	w := NewWorker(h, pod, h.Net.Pod(0, 1))
	stop := start(t, w)
	eventually(t, h, func(c *assert.CollectT, s corev1.PodStatus) { require.NotNil(c, s.ContainerStatuses[0].State.Running) })
	w.Shutdown()
	stop()
	status := reported(t, h)
	require.Equal(t, corev1.PodRunning, status.Phase)
	require.NotNil(t, status.ContainerStatuses[0].State.Running)
}

// pretended starts a Pod with an unmapped image; annotate changes its annotations.
func pretended(t *testing.T, annotations map[string]string) (h *Host, annotate func(key, value string)) {
	t.Helper()
	pod := newPod(corev1.RestartPolicyAlways, corev1.Container{Name: "main", Image: "example.com/none"})
	pod.Annotations = annotations
	h = newHost(t, pod)
	w := NewWorker(h, pod, h.Net.Pod(0, 1))
	stop := start(t, w)
	t.Cleanup(stop)
	return h, func(key, value string) {
		changed := w.Pod().DeepCopy()
		changed.Annotations = map[string]string{key: value}
		w.Update(changed)
	}
}

func eventually(t *testing.T, h *Host, check func(c *assert.CollectT, s corev1.PodStatus)) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		s := reported(c, h)
		require.Len(c, s.ContainerStatuses, 1)
		check(c, s)
	}, time.Minute, 10*time.Millisecond)
}

func TestASimulatedPodIsReadyAsAnnotated(t *testing.T) {
	t.Parallel()
	began := time.Now()
	h, annotate := pretended(t, map[string]string{annotationStartAfter: "300ms"})
	eventually(t, h, func(c *assert.CollectT, s corev1.PodStatus) {
		require.Equal(c, corev1.PodRunning, s.Phase)
		require.True(c, s.ContainerStatuses[0].Ready)
	})
	require.Greater(t, time.Since(began), 300*time.Millisecond)
	annotate(annotationReady, "false")
	eventually(t, h, func(c *assert.CollectT, s corev1.PodStatus) {
		require.NotNil(c, s.ContainerStatuses[0].State.Running)
		require.False(c, s.ContainerStatuses[0].Ready)
	})
	annotate(annotationReady, "true")
	eventually(t, h, func(c *assert.CollectT, s corev1.PodStatus) { require.True(c, s.ContainerStatuses[0].Ready) })
}

func TestALostPodEndsAsIfEvicted(t *testing.T) {
	t.Parallel()
	h, annotate := pretended(t, nil)
	eventually(t, h, func(c *assert.CollectT, s corev1.PodStatus) { require.True(c, s.ContainerStatuses[0].Ready) })
	annotate(annotationLost, "true")
	eventually(t, h, func(c *assert.CollectT, s corev1.PodStatus) {
		require.Equal(c, corev1.PodFailed, s.Phase)
		require.Equal(c, "Evicted", s.Reason)
		require.NotNil(c, s.ContainerStatuses[0].State.Terminated)
	})
}
