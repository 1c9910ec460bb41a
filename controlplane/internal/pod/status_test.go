package pod

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func running(ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func exited(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func waiting(before ...corev1.ContainerStatus) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	for _, b := range before {
		s.LastTerminationState = b.State
	}
	return s
}

func TestStatus(t *testing.T) {
	type statuses = []corev1.ContainerStatus
	for _, test := range []struct {
		name        string
		init, main  statuses
		phase       corev1.PodPhase
		initialized bool
		ready       bool
	}{
		{name: "is pending at first", main: statuses{waiting()}, phase: corev1.PodPending, initialized: true},
		{
			name: "is not initialized while an init container runs", init: statuses{running(false)}, main: statuses{waiting()},
			phase: corev1.PodPending,
		},
		{name: "fails with its init container", init: statuses{exited(1)}, main: statuses{waiting()}, phase: corev1.PodFailed},
		{
			name: "is running when all containers run, and ready when all are ready", init: statuses{exited(0)}, main: statuses{running(true), running(true)},
			phase: corev1.PodRunning, initialized: true, ready: true,
		},
		{name: "waits for the slowest container", main: statuses{running(true), running(false)}, phase: corev1.PodRunning, initialized: true},
		{name: "is running between two starts of a container", main: statuses{waiting(exited(1))}, phase: corev1.PodRunning, initialized: true},
		{name: "is running while one container runs", main: statuses{exited(1), running(true)}, phase: corev1.PodRunning, initialized: true},
		{name: "succeeds when all containers succeed", main: statuses{exited(0), exited(0)}, phase: corev1.PodSucceeded, initialized: true},
		{name: "fails when one container fails", main: statuses{exited(0), exited(2)}, phase: corev1.PodFailed, initialized: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: make([]corev1.Container, len(test.init))}}
			v := view{pod: pod, podIP: "10.1.0.1", init: test.init, main: test.main, now: metav1.Now()}
			s := v.status()
			require.Equal(t, test.phase, s.Phase)
			require.Equal(t, test.initialized, isTrue(s, corev1.PodInitialized))
			require.Equal(t, test.ready, isTrue(s, corev1.PodReady))
			require.Equal(t, test.ready, isTrue(s, corev1.ContainersReady))
		})
	}
}

func TestReadinessGatesDelayReadyAndTransitionTimesAreKept(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: long},
		}},
	}
	s := view{pod: pod, main: []corev1.ContainerStatus{running(true)}, now: metav1.Now()}.status()
	require.True(t, isTrue(s, corev1.ContainersReady))
	require.False(t, isTrue(s, corev1.PodReady))
	for _, c := range s.Conditions {
		require.Equal(t, c.Type == corev1.ContainersReady, c.LastTransitionTime.Equal(&long), c.Type)
	}
}

func TestStatusPatchClearsOldReasons(t *testing.T) {
	patch, err := statusPatch("u", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
	require.NoError(t, err)
	require.Contains(t, string(patch), `"reason":null`)
	require.Contains(t, string(patch), `"uid":"u"`)
}

func TestBackoffDoublesToItsMaximumAndIsReset(t *testing.T) {
	var b backoff
	var got []time.Duration
	for range 7 {
		got = append(got, b.next(0))
	}
	s := time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, got)
	require.Equal(t, s, b.next(goodRun))
}

func isTrue(s corev1.PodStatus, kind corev1.PodConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// After a restart, the control plane may have another network, because another control plane has taken the old network in the meantime.
func TestNewAddressesReplaceThoseOfAnEarlierRun(t *testing.T) {
	patch, err := statusPatch("u", view{pod: &corev1.Pod{}, podIP: "10.9.0.1", hostIP: "10.9.255.253"}.status())
	require.NoError(t, err)
	for _, before := range []string{
		`{}`,
		`{"status":{"podIP":"10.7.0.1","podIPs":[{"ip":"10.7.0.1"}],"hostIP":"10.7.255.253","hostIPs":[{"ip":"10.7.255.253"}]}}`,
	} {
		patched, err := strategicpatch.StrategicMergePatch([]byte(before), patch, corev1.Pod{})
		require.NoError(t, err)
		var after corev1.Pod
		require.NoError(t, json.Unmarshal(patched, &after))
		require.Equal(t, []corev1.PodIP{{IP: "10.9.0.1"}}, after.Status.PodIPs)
		require.Equal(t, []corev1.HostIP{{IP: "10.9.255.253"}}, after.Status.HostIPs)
	}
}
