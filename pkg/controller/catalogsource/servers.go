package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// goodRun is how long a Pod has to have been there for the next one to be made without a pause.
	goodRun = 10 * time.Minute
	// conflictPause is how long our cache may take to show who changed an object.
	conflictPause = time.Second
	// labelEnforce of a Namespace is the Pod Security Standard that it holds Pods to.
	labelEnforce = "pod-security.kubernetes.io/enforce"
	restricted   = "restricted"
)

// servers runs the registries of images that are ones, in the global catalog namespace only: what a CatalogSource owns there, and
// nothing else, is made, changed and deleted, as self (docs/adr/0017).
//
// The ServiceAccount is made first and deleted last: while there is none that the CatalogSource owns there is nothing at all, and
// nobody looks for Pods.
type servers struct {
	client    client.Client
	live      client.Reader
	namespace string
	clock     clock.Clock
	// cached reads the Pods and Services of the namespace once watch has returned.
	cached client.Reader
	// watch sees to it that whoever owns a Pod or Service is woken by it; it begins with its first call.
	watch func(context.Context) error

	mu    sync.Mutex
	byKey map[types.NamespacedName]*history
}

// serving is what is to be said of a registry that is run, or is to be.
type serving struct {
	// any says that there is something to read the registry from, or will be.
	any bool
	// target is the address of the Pod that answers; empty where none does.
	target string
	// trouble says why none does, beyond that it takes its time.
	trouble string
	// update says what became of the Pod that was to take the place of the one that serves.
	update string
	// err is why something could not be done; retry that it is worth another try although nobody wakes us.
	err   error
	retry bool
	// again is when to look again, if nobody wakes us before; zero is never.
	again time.Duration
}

func newServers(o Options) *servers {
	return &servers{
		client: o.Client, live: o.Live, namespace: o.GlobalNamespace, clock: o.Clock, cached: o.Client,
		watch: func(context.Context) error { return nil }, byKey: map[types.NamespacedName]*history{},
	}
}

// running is what runs for a CatalogSource, whatever its image may be now: nothing is made or changed.
func (s *servers) running(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) serving {
	account := &corev1.ServiceAccount{}
	err := s.client.Get(ctx, client.ObjectKeyFromObject(cs), account)
	if apierrors.IsNotFound(err) || err == nil && !server.OwnedBy(account, cs.UID) {
		return serving{}
	}
	if err == nil {
		err = s.watch(ctx)
	}
	if err != nil {
		return serving{any: true, err: err, retry: true}
	}
	out := s.seen(ctx, cs, "")
	out.any = true
	return out
}

// seen is what the Pods say; those of the hash are wanted.
func (s *servers) seen(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, hash string) serving {
	pods, err := s.list(ctx, s.cached, cs)
	out := serving{any: len(pods) > 0, err: err, retry: err != nil}
	out.look(server.Serving(cs.Name, hash, pods))
	return out
}

// look notes which Pod answers.
func (s *serving) look(pod *corev1.Pod) {
	switch {
	case pod == nil:
	case !server.IsReady(pod):
		if why := server.Trouble(pod); why != "" {
			s.trouble = fmt.Sprintf("Pod %s is not ready: %s", pod.Name, why)
		}
	default:
		s.target, s.trouble = podTarget(pod)
	}
}

// ensure makes what it takes to run an image, named by its digest, and says how that goes. The image's registry was last polled at a
// time that is nil where it is not asked again and again.
func (s *servers) ensure(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, image string, polled *metav1.Time) serving {
	if err := server.CheckName(cs.Name); err != nil {
		return serving{err: err}
	}
	want, err := s.wanted(ctx, cs, image)
	if err != nil {
		return serving{err: err, retry: true}
	}
	if err := s.watch(ctx); err != nil {
		return serving{err: err, retry: true}
	}
	if err := s.ensureOthers(ctx, want); err != nil {
		out := s.seen(ctx, cs, want.pod.Labels[names.LabelPodSpecHash])
		out.err, out.retry = err, !isTaken(err)
		return out.unlessConflict()
	}
	return s.ensurePods(ctx, cs, want.pod, polled).unlessConflict()
}

// unlessConflict leaves out that somebody changed an object meanwhile: it is looked at again.
func (s serving) unlessConflict() serving {
	if apierrors.IsConflict(s.err) {
		s.err, s.retry, s.again = nil, false, conflictPause
	}
	return s
}

// objects are those of a registry.
type objects struct {
	owner   types.UID
	account *corev1.ServiceAccount
	service *corev1.Service
	pod     *corev1.Pod
}

func (s *servers) wanted(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, image string) (objects, error) {
	namespace := &corev1.Namespace{}
	if err := s.client.Get(ctx, types.NamespacedName{Name: cs.Namespace}, namespace); err != nil {
		return objects{}, fmt.Errorf("get Namespace %s: %w", cs.Namespace, err)
	}
	registry := server.Registry{Source: cs, Image: image, Restricted: namespace.Labels[labelEnforce] == restricted}
	out := objects{owner: cs.UID}
	var err error
	if out.account, err = registry.ServiceAccount(); err != nil {
		return out, err
	}
	if out.service, err = registry.Service(); err != nil {
		return out, err
	}
	out.pod, err = registry.Pod()
	return out, err
}

// ensurePods does the next step that the Pods call for. It decides by the cache that there is one, and by the API server which:
// a cache that lags would have Pods made twice.
func (s *servers) ensurePods(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, want *corev1.Pod, polled *metav1.Time) serving {
	key, hash := client.ObjectKeyFromObject(cs), want.Labels[names.LabelPodSpecHash]
	pods, err := s.list(ctx, s.cached, cs)
	if err != nil {
		return serving{any: true, err: err, retry: true}
	}
	h := s.history(key)
	hold, again := h.hold(hash, polled, s.clock.Now())
	if !server.Decide(want, pods, hold).IsEmpty() {
		var live []*corev1.Pod
		if live, err = s.list(ctx, s.live, cs); err == nil {
			pods = live
			step := server.Decide(want, pods, hold)
			h.gaveUp(step.Failed, hash, polled, s.clock.Now())
			if err = s.do(ctx, step); err == nil {
				h.created(step.Create, s.clock.Now())
			}
			_, again = h.hold(hash, polled, s.clock.Now())
		}
	}
	out := serving{any: true, err: err, retry: err != nil, again: again, update: h.update(hash)}
	if p := server.Waiting(hash, pods); p != nil {
		out.update = fmt.Sprintf("catalog polling: %s not ready for update: update pod %s has not yet reported ready: %s", cs.Name, p.Name, server.Trouble(p))
	}
	out.look(server.Serving(cs.Name, hash, pods))
	return out
}

// do sends what a step says. The Pod that is promoted serves before others go.
func (s *servers) do(ctx context.Context, step server.Step) error {
	log := ctrl.LoggerFrom(ctx)
	if step.Promote != nil {
		log.Info("Promoting registry Pod", "pod", step.Promote.Name)
		after := server.Promoted(step.Promote)
		patch := client.MergeFromWithOptions(step.Promote, client.MergeFromWithOptimisticLock{})
		if err := s.client.Patch(ctx, after, patch); err != nil {
			return fmt.Errorf("promote Pod %s: %w", step.Promote.Name, err)
		}
	}
	for _, p := range step.Delete {
		log.Info("Deleting registry Pod", "pod", p.Name)
		if err := s.delete(ctx, p); err != nil {
			return err
		}
	}
	if step.Create == nil {
		return nil
	}
	return s.create(ctx, step.Create)
}

// create makes a Pod. One that admission took the labels from would not be found again, and another be made, and another.
func (s *servers) create(ctx context.Context, pod *corev1.Pod) error {
	made := pod.DeepCopy()
	if err := s.client.Create(ctx, made); err != nil {
		return fmt.Errorf("create Pod: %w", unnamed(err))
	}
	ctrl.LoggerFrom(ctx).Info("Created registry Pod", "pod", made.Name, "image", pod.Spec.Containers[0].Image)
	for _, label := range slices.Sorted(maps.Keys(pod.Labels)) {
		if got, ok := made.Labels[label]; !ok || got != pod.Labels[label] {
			if err := s.delete(ctx, made); err != nil {
				return err
			}
			return fmt.Errorf("create Pod: an admission webhook changes its label %s", label)
		}
	}
	return nil
}

// unnamed leaves out the name that was generated for a Pod that was refused. It is another one each time, and what is told
// would never be the same.
func unnamed(err error) error {
	var refused *apierrors.StatusError
	if !errors.As(err, &refused) || refused.ErrStatus.Details == nil || refused.ErrStatus.Details.Name == "" {
		return err
	}
	out := refused.ErrStatus.DeepCopy()
	out.Message = strings.ReplaceAll(out.Message, fmt.Sprintf(" %q", out.Details.Name), "")
	return &apierrors.StatusError{ErrStatus: *out}
}

func (s *servers) delete(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := s.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete %s %s: %w", kindOf(obj), obj.GetName(), err)
}

// list returns the Pods that a CatalogSource owns.
func (s *servers) list(ctx context.Context, from client.Reader, cs *operatorsv1alpha1.CatalogSource) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := from.List(ctx, list, client.InNamespace(s.namespace), client.HasLabels{names.LabelCatalogSource}); err != nil {
		return nil, fmt.Errorf("list Pods of namespace %s: %w", s.namespace, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if server.OwnedBy(&list.Items[i], cs.UID) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// remove deletes all that was made for a CatalogSource, where there is anything: where its ServiceAccount is there, or was
// when we last made something.
func (s *servers) remove(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) error {
	if cs.Namespace != s.namespace {
		return nil
	}
	account := &corev1.ServiceAccount{}
	err := s.client.Get(ctx, client.ObjectKeyFromObject(cs), account)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ServiceAccount %s: %w", cs.Name, err)
	}
	ours := err == nil && server.OwnedBy(account, cs.UID)
	if !ours && !s.knows(client.ObjectKeyFromObject(cs)) {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Removing registry")
	if err := s.removePods(ctx, cs); err != nil {
		return err
	}
	service := &corev1.Service{}
	err = s.live.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: server.ServiceName(cs.Name)}, service)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Service: %w", err)
	}
	if err == nil && server.OwnedBy(service, cs.UID) {
		if err := s.delete(ctx, service); err != nil {
			return err
		}
	}
	if ours {
		if err := s.delete(ctx, account); err != nil {
			return err
		}
	}
	s.forget(client.ObjectKeyFromObject(cs))
	return nil
}

func (s *servers) removePods(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) error {
	pods, err := s.list(ctx, s.live, cs)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if err := s.delete(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *servers) history(key types.NamespacedName) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[key] == nil {
		s.byKey[key] = &history{}
	}
	return s.byKey[key]
}

func (s *servers) knows(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key] != nil
}

func (s *servers) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
}
