package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/controlplane/internal/pod"
)

const deleteRetry = 500 * time.Millisecond

// Pods runs the Pods that are bound to the node.
type Pods struct {
	host      *pod.Host
	addresses *addresses
	lister    corelisters.PodLister

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // of all workers; nil before Start and after Stop
	cancel  context.CancelFunc
	running map[types.UID]*run
	// finished contains the Pods whose workers have ended, so that a late, outdated event does not start them again. An
	// entry is removed when its Pod is deleted.
	finished map[types.UID]struct{}
	ending   sync.WaitGroup
}

// run is a running worker and the function that stops it.
type run struct {
	worker *pod.Worker
	cancel context.CancelFunc
}

// NewPods returns Pods; call Start to run them.
func NewPods(host *pod.Host) *Pods {
	return &Pods{host: host, addresses: newAddresses(host.Net), running: map[types.UID]*run{}, finished: map[types.UID]struct{}{}}
}

// Start starts watching and running Pods.
func (p *Pods) Start(ctx context.Context) error {
	// Stop cancels this context. It is not canceled with the caller's context, because when a signal arrives, the Pods
	// must stop in order and not all at the same time.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.ctx, p.cancel = ctx, cancel
	ours := informers.NewSharedInformerFactoryWithOptions(p.host.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", Name).String()
	}))
	pods := ours.Core().V1().Pods()
	p.lister = pods.Lister()
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.observe(obj) },    //nolint:contextcheck // a worker outlives the event
		UpdateFunc: func(_, obj any) { p.observe(obj) }, //nolint:contextcheck // a worker outlives the event
		DeleteFunc: func(obj any) { p.forget(obj) },
	}); err != nil {
		return err
	}
	all := informers.NewSharedInformerFactory(p.host.Client, 0)
	for _, i := range []cache.SharedIndexInformer{all.Core().V1().Secrets().Informer(), all.Core().V1().ConfigMaps().Informer()} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    p.wake,
			UpdateFunc: func(_, obj any) { p.wake(obj) },
			DeleteFunc: p.wake,
		}); err != nil {
			return err
		}
	}
	all.Start(ctx.Done())
	ours.Start(ctx.Done())
	return nil
}

// Stop kills all processes and waits until they have ended.
func (p *Pods) Stop() {
	p.mu.Lock()
	for _, r := range p.running {
		r.worker.Shutdown()
	}
	p.cancel()
	p.mu.Unlock()
	p.ending.Wait()
}

// Lookup returns the node's Pod with the given name, and whether its containers may still write logs.
func (p *Pods) Lookup(namespace, name string) (found *corev1.Pod, live bool, err error) {
	found, err = p.lister.Pods(namespace).Get(name)
	if err != nil {
		return nil, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, live = p.running[found.UID]
	return found, live, nil
}

func (p *Pods) observe(obj any) {
	current, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	r, ok := p.running[current.UID]
	_, finished := p.finished[current.UID]
	switch {
	case ok && current.DeletionTimestamp != nil:
		r.worker.Update(current)
		r.cancel()
	case ok:
		r.worker.Update(current)
	case current.DeletionTimestamp != nil:
		p.ending.Go(func() { p.remove(p.ctx, current) })
	case !finished && current.Status.Phase != corev1.PodSucceeded && current.Status.Phase != corev1.PodFailed:
		p.start(current)
	}
}

// start runs a new Pod; the caller must hold the lock.
func (p *Pods) start(current *corev1.Pod) {
	ip, err := p.addresses.assign(current.UID, current.Status.PodIP)
	if err != nil {
		klog.ErrorS(err, "Pod stays pending", "pod", klog.KObj(current))
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	r := &run{worker: pod.NewWorker(p.host, current, ip), cancel: cancel}
	p.running[current.UID] = r
	p.ending.Go(func() {
		defer cancel()
		r.worker.Run(ctx)
		p.ended(r)
	})
}

// ended cleans up after a worker. If the Pod is being deleted, it also completes the deletion.
func (p *Pods) ended(r *run) {
	last := r.worker.Pod()
	p.mu.Lock()
	delete(p.running, last.UID)
	p.finished[last.UID] = struct{}{}
	stopping := p.ctx.Err() != nil
	p.mu.Unlock()
	if stopping {
		return // the next start needs the address and the volumes
	}
	r.worker.Clean()
	p.addresses.release(last.UID)
	if r.worker.Pod().DeletionTimestamp != nil {
		p.remove(p.ctx, last)
	}
}

// remove deletes a Pod whose containers have ended. The UID precondition protects a new Pod of the same name.
func (p *Pods) remove(ctx context.Context, gone *corev1.Pod) {
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(gone.UID))}
	err := wait.PollUntilContextCancel(ctx, deleteRetry, true, func(ctx context.Context) (bool, error) {
		err := p.host.Client.CoreV1().Pods(gone.Namespace).Delete(ctx, gone.Name, options)
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err), nil
	})
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Failed to delete Pod", "pod", klog.KObj(gone))
	}
}

// forget stops Pods whose deletion did not wait for the node.
func (p *Pods) forget(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	gone, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.finished, gone.UID)
	if r, ok := p.running[gone.UID]; ok {
		r.cancel()
	}
}

func (p *Pods) wake(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	changed, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.running {
		if r.worker.Pod().Namespace == changed.GetNamespace() {
			r.worker.Wake()
		}
	}
}
