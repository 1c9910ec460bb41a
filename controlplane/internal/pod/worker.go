package pod

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/controlplane/internal/config"
	"github.com/remit-olm/remit/controlplane/internal/podenv"
	"github.com/remit-olm/remit/controlplane/internal/volume"
)

const (
	// refresh is the interval at which volumes are refreshed even if nothing has changed, because their tokens must be
	// renewed.
	refresh = time.Minute
	// shutdownGrace is the grace period of Pods when the whole control plane stops.
	shutdownGrace = 2 * time.Second
	defaultGrace  = 30 * time.Second
)

// Worker runs one Pod. Run may be called only once; the other methods may be called at any time.
type Worker struct {
	host    *Host
	ip      netip.Addr
	volumes *volume.Set

	woken   *broadcast    // something the Pod refers to may have changed
	touched chan struct{} // some container state has changed
	mapped  atomic.Bool   // some container is a process, so volumes are needed
	lost    chan struct{} // closed when the Pod must end as if it were evicted

	init, main []*runner

	mu       sync.Mutex
	pod      *corev1.Pod
	shutdown bool
	isLost   bool
}

// NewWorker returns the worker of a Pod whose address is ip.
func NewWorker(host *Host, pod *corev1.Pod, ip netip.Addr) *Worker {
	w := &Worker{host: host, ip: ip, pod: pod, woken: newBroadcast(), touched: make(chan struct{}, 1), lost: make(chan struct{})}
	w.volumes = volume.NewSet(config.Reader{Client: host.Client, Namespace: pod.Namespace}, host.PodDir(pod))
	for i := range pod.Spec.InitContainers {
		w.init = append(w.init, newRunner(w, &pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		w.main = append(w.main, newRunner(w, &pod.Spec.Containers[i], false))
	}
	return w
}

// Run runs the Pod. It returns when all containers have ended permanently. Once the context is done or the Pod is lost,
// it stops all processes and returns when they have ended.
func (w *Worker) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-w.lost:
			cancel()
		}
	}()
	reports, stopReports := context.WithCancel(context.WithoutCancel(ctx))
	running, cancelSidecars := context.WithCancel(ctx)
	var reporter, sidecars sync.WaitGroup
	reporter.Go(func() { w.report(reports) })
	sidecars.Go(func() { w.refresh(running) })
	w.touch()
	if w.runInit(running, &sidecars) {
		var mains sync.WaitGroup
		for _, r := range w.main {
			mains.Go(func() { r.run(running) })
		}
		mains.Wait()
	}
	cancelSidecars()
	sidecars.Wait()
	stopReports()
	reporter.Wait()
	w.reportOnce(context.WithoutCancel(ctx))
}

// Clean removes the Pod's files, except its logs. Call it after Run.
func (w *Worker) Clean() {
	if err := w.volumes.Remove(); err != nil {
		klog.ErrorS(err, "Failed to remove the volumes of Pod", "pod", klog.KObj(w.Pod()))
	}
}

// Update gives the worker a newer version of the Pod.
func (w *Worker) Update(pod *corev1.Pod) {
	w.mu.Lock()
	old := w.pod
	w.pod = pod
	if isLost(pod) && !w.isLost {
		w.isLost = true
		close(w.lost)
	}
	w.mu.Unlock()
	w.touch()
	// Volumes can refer only to labels and annotations of the Pod, so other changes do not trigger a refresh. In
	// particular, the worker's own status updates must not.
	if !maps.Equal(old.Labels, pod.Labels) || !maps.Equal(old.Annotations, pod.Annotations) {
		w.woken.Fire()
	}
}

// Wake tells the worker that a Secret or ConfigMap in the namespace has changed.
func (w *Worker) Wake() { w.woken.Fire() }

// Shutdown shortens the grace period and suppresses all further reports.
func (w *Worker) Shutdown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shutdown = true
}

// Pod returns the latest known version of the Pod.
func (w *Worker) Pod() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

// runInit runs the init containers in sequence. For a sidecar, it waits only until the container has started. It
// returns false if the main containers must not start.
func (w *Worker) runInit(ctx context.Context, sidecars *sync.WaitGroup) bool {
	for _, r := range w.init {
		if !isSidecar(r.spec) {
			if !r.run(ctx) || ctx.Err() != nil {
				return false
			}
			continue
		}
		sidecars.Go(func() { r.run(ctx) })
		if !w.await(ctx, r) {
			return false
		}
	}
	return ctx.Err() == nil
}

func (w *Worker) await(ctx context.Context, r *runner) bool {
	for tick := time.Tick(20 * time.Millisecond); !ptr.Deref(r.state.get().Started, false); {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
		}
	}
	return true
}

// refresh keeps the volumes current once a process uses them.
func (w *Worker) refresh(ctx context.Context) {
	woken := w.woken.C()
	for tick := time.Tick(refresh); ; {
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-tick:
		}
		woken = w.woken.C() // before reading, so that no change is missed
		if !w.mapped.Load() {
			continue
		}
		if err := w.volumes.Sync(ctx, w.facts()); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Volumes keep their old content", "pod", klog.KObj(w.Pod()), "err", err)
		}
	}
}

func (w *Worker) facts() podenv.Facts {
	return podenv.Facts{
		Pod: w.Pod(), PodIP: w.ip.String(), HostIP: w.host.Net.NodeAddr().String(), Allocatable: w.host.Allocatable,
	}
}

func (w *Worker) listenIP() string { return w.host.Net.Local(w.ip).String() }

// grace returns the time between SIGTERM and SIGKILL.
func (w *Worker) grace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	grace := defaultGrace
	for _, s := range []*int64{w.pod.Spec.TerminationGracePeriodSeconds, w.pod.DeletionGracePeriodSeconds} {
		if s != nil {
			grace = min(grace, time.Duration(*s)*time.Second)
		}
	}
	if w.shutdown {
		grace = min(grace, shutdownGrace)
	}
	return grace
}

func (w *Worker) isShutdown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shutdown
}
