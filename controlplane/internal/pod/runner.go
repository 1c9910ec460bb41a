package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/remit-olm/remit/controlplane/internal/probe"
	"github.com/remit-olm/remit/controlplane/internal/process"
)

// livenessGrace is the maximum time between SIGTERM and SIGKILL for a process that failed its liveness probe.
const livenessGrace = 5 * time.Second

// runner keeps one container in the state that its spec requires.
type runner struct {
	worker *Worker
	spec   *corev1.Container
	init   bool
	policy corev1.RestartPolicy
	state  *state
}

func newRunner(w *Worker, spec *corev1.Container, init bool) *runner {
	pod, reason := w.Pod(), reasonCreating
	before := pod.Status.ContainerStatuses
	if init {
		before = pod.Status.InitContainerStatuses
	}
	if !init && len(pod.Spec.InitContainers) > 0 {
		reason = reasonInitialize
	}
	return &runner{
		worker: w, spec: spec, init: init, policy: restartPolicy(pod, spec, init),
		state: newState(spec, before, reason, w.touch),
	}
}

// restartPolicy returns the restart policy of a container. It is the Pod's, except that init containers run to
// completion and sidecars run indefinitely.
func restartPolicy(pod *corev1.Pod, c *corev1.Container, init bool) corev1.RestartPolicy {
	switch {
	case init && isSidecar(c):
		return corev1.RestartPolicyAlways
	case init && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways:
		return corev1.RestartPolicyOnFailure
	}
	return pod.Spec.RestartPolicy
}

// run runs the container, with restarts, until it has ended permanently or the context is done, and reports whether it
// completed.
func (r *runner) run(ctx context.Context) bool {
	var pauses backoff
	for {
		began := time.Now()
		end := r.once(ctx)
		if ctx.Err() != nil || !r.again(end) {
			r.state.terminated(end)
			return end.ExitCode == 0
		}
		delay := pauses.next(time.Since(began))
		r.state.crashed(end, delay)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(delay):
		}
		r.state.restarting()
	}
}

func (r *runner) again(end *corev1.ContainerStateTerminated) bool {
	switch r.policy {
	case corev1.RestartPolicyAlways:
		return true
	case corev1.RestartPolicyOnFailure:
		return end.ExitCode != 0
	}
	return false
}

// once runs the container a single time and returns how it ended.
func (r *runner) once(ctx context.Context) *corev1.ContainerStateTerminated {
	spec, mapped := r.prepare(ctx)
	if ctx.Err() != nil {
		return ended(process.Exit{}, time.Now())
	}
	if !mapped {
		return r.pretend(ctx)
	}
	defer func() { _ = spec.Log.Close() }()
	began := time.Now()
	p, err := r.worker.host.Launcher.Start(*spec)
	if err != nil {
		end := ended(process.Exit{Code: 128}, began)
		end.Reason, end.Message = reasonStartError, err.Error()
		return end
	}
	klog.InfoS("Started process", "pod", klog.KObj(r.worker.Pod()), "container", r.spec.Name, "pid", p.Pid(), "path", spec.Path)
	return r.watch(ctx, p, began)
}

// watch follows a started process until it has ended.
func (r *runner) watch(ctx context.Context, p *process.Process, began time.Time) *corev1.ContainerStateTerminated {
	r.state.running(fmt.Sprintf("remit://%d-%d", p.Pid(), began.UnixNano()))
	probes, cancel := context.WithCancel(ctx)
	defer cancel()
	sick := make(chan struct{}, 1)
	go r.probe(probes, func() {
		select {
		case sick <- struct{}{}:
		default:
		}
	})
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(r.worker.grace())
	case <-sick:
		klog.InfoS("Stopping process that failed its probe", "pod", klog.KObj(r.worker.Pod()), "container", r.spec.Name)
		p.Stop(min(r.worker.grace(), livenessGrace))
	}
	klog.InfoS("Process ended", "pod", klog.KObj(r.worker.Pod()), "container", r.spec.Name, "pid", p.Pid(), "exit", p.Exit().Code)
	return ended(p.Exit(), began)
}

// probe runs the container's probes. They set started and ready, and call kill when the container has to be restarted.
func (r *runner) probe(ctx context.Context, kill func()) {
	target := probe.Target{Container: r.spec, Host: r.worker.listenIP()}
	if p := r.spec.StartupProbe; p != nil {
		up := false
		probe.Watch(ctx, target, p, func(ok bool) bool {
			up = ok
			return false
		})
		if !up {
			kill()
			return
		}
	}
	r.state.started()
	if p := r.spec.LivenessProbe; p != nil {
		go probe.Watch(ctx, target, p, func(ok bool) bool {
			if !ok {
				kill()
			}
			return ok
		})
	}
	if p := r.spec.ReadinessProbe; p != nil {
		probe.Watch(ctx, target, p, func(ok bool) bool {
			// The context is checked last: a late probe result must not revive a stopped container.
			if ctx.Err() == nil {
				r.state.ready(ok)
			}
			return true
		})
		return
	}
	r.state.ready(true)
}

// pretend simulates a container whose image is not mapped.
func (r *runner) pretend(ctx context.Context) *corev1.ContainerStateTerminated {
	began := time.Now()
	if (r.init && !isSidecar(r.spec)) || completes(r.worker.Pod()) {
		return ended(process.Exit{}, began)
	}
	starting := time.NewTimer(startAfter(r.worker.Pod()))
	defer starting.Stop()
	for up := startAfter(r.worker.Pod()) <= 0; ; {
		woken := r.worker.woken.C()
		r.state.pretended(string(r.worker.Pod().UID), up && mayBeReady(r.worker.Pod()))
		select {
		case <-ctx.Done():
			return ended(process.Exit{}, began)
		case <-starting.C:
			up = true
		case <-woken:
		}
	}
}

// completes reports whether the Pod's simulated containers should exit. This is true for Pods of a Job, because a Job
// waits until they succeed.
func completes(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job" && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
}

func ended(exit process.Exit, began time.Time) *corev1.ContainerStateTerminated {
	reason := reasonCompleted
	if exit.Code != 0 {
		reason = reasonError
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: exit.Code, Signal: exit.Signal, Reason: reason,
		StartedAt: metav1.NewTime(began), FinishedAt: metav1.Now(),
	}
}
