package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// goodRun is the age of a Pod after which its replacement is created without a delay.
	goodRun = 10 * time.Minute
	// conflictPause is how long the cache may take to show a concurrent change.
	conflictPause = time.Second
	// labelEnforce is the Namespace label that specifies the enforced Pod Security Standard.
	labelEnforce = "pod-security.kubernetes.io/enforce"
	restricted   = "restricted"
)

// servers runs registry images as one identity: in the global catalog namespace as the controller identity, and in other
// namespaces as the default account (tenantServers). It creates, changes and deletes only objects that the CatalogSource
// owns (docs/adr/0017).
//
// The ServiceAccount is created first and deleted last: if the CatalogSource owns no ServiceAccount, there are no other
// objects, and Pods need not be listed.
type servers struct {
	*managed
	// client writes, and live reads without a cache, as the identity.
	client client.Client
	live   client.Reader
	// cached reads Pods and Services after watch has returned.
	cached client.Reader
	// byTag means that an image whose digest is unknown runs by tag. The policy remit-self-registries refuses this for the
	// controller identity (docs/adr/0074).
	byTag bool
	// watch makes Pods and Services wake their owners. Watching starts with the first call.
	watch func(context.Context) error
}

// managed contains what all servers share.
type managed struct {
	// own reads Namespaces and ServiceAccounts from the controller identity's cache.
	own   client.Reader
	clock clock.Clock
	// workloadUser is the user of restricted Pods whose image has none; 0 means none.
	workloadUser int64
	// histories has an entry for each CatalogSource whose registry has been run since the program started.
	histories keyed.Map[types.NamespacedName, *history]
}

// mayExist reports whether objects of the CatalogSource may exist: it owns a ServiceAccount, or its registry has been run
// since the program started.
func (m *managed) mayExist(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) (bool, error) {
	if m.histories.Get(client.ObjectKeyFromObject(cs)) != nil {
		return true, nil
	}
	account := &corev1.ServiceAccount{}
	_, err := apply.Read(ctx, m.own, client.ObjectKeyFromObject(cs), account)
	return err == nil && server.OwnedBy(account, cs.UID), err
}

// serving is the observed state of a registry.
type serving struct {
	// any means that a Pod that serves the registry exists or is expected.
	any bool
	// target is the address of the ready Pod, or empty.
	target string
	// trouble describes why no Pod is ready. It is empty while a Pod starts normally.
	trouble string
	// update describes a failed or delayed update Pod.
	update string
	// err is the error from the last change; retry means that no event announces when the change can succeed.
	err   error
	retry bool
	// recheckAfter is the delay before the next check without an event; 0 means none.
	recheckAfter time.Duration
}

func newServers(o Options) *servers {
	return &servers{
		managed: &managed{own: o.Client, clock: o.Clock, workloadUser: o.WorkloadUser}, client: o.Client, live: o.Live, cached: o.Client,
		watch: func(context.Context) error { return nil },
	}
}

// running returns the state of the existing Pods, regardless of the current image. It changes nothing.
func (s *servers) running(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) serving {
	account := &corev1.ServiceAccount{}
	_, err := apply.Read(ctx, s.own, client.ObjectKeyFromObject(cs), account)
	if err == nil && !server.OwnedBy(account, cs.UID) {
		return serving{}
	}
	if err == nil {
		err = s.watch(ctx)
	}
	if err != nil {
		return serving{any: true, err: err, retry: true}
	}
	out := s.observePods(ctx, cs, "")
	out.any = true
	return out
}

// observePods returns the state of the Pods. Pods with this hash are up to date.
func (s *servers) observePods(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, hash string) serving {
	pods, err := s.list(ctx, s.cached, cs)
	out := serving{any: len(pods) > 0, err: err, retry: err != nil}
	out.observePod(server.Serving(cs.Name, hash, pods))
	return out
}

// observePod records the Pod to read from.
func (s *serving) observePod(pod *corev1.Pod) {
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

// registryImage is an image that runs as a registry.
type registryImage struct {
	// reference contains the digest or, only if the servers run images by tag, a tag.
	reference string
	// user is the user in the image's configuration, or "".
	user string
}

// mayRunUnread reports whether an image that could not be read may run: no Pod runs it by digest.
func (s *servers) mayRunUnread(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) bool {
	if !s.byTag || s.watch(ctx) != nil {
		return false
	}
	pods, err := s.list(ctx, s.cached, cs)
	return err == nil && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !server.RunsByTag(p) })
}

// ensure creates or updates the objects that run an image and returns the state. polled is the time of the last poll, or
// nil if the image is not polled.
func (s *servers) ensure(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, image registryImage, polled *metav1.Time) serving {
	if err := server.CheckName(cs.Name); err != nil {
		return serving{err: err}
	}
	s.history(client.ObjectKeyFromObject(cs))
	want, err := s.wanted(ctx, cs, image)
	if err != nil {
		return serving{err: err, retry: true}
	}
	if err := s.watch(ctx); err != nil {
		return serving{err: err, retry: true}
	}
	if err := s.ensureOthers(ctx, want); err != nil {
		out := s.observePods(ctx, cs, want.pod.Labels[names.LabelPodSpecHash])
		out.err, out.retry = err, !kit.Is[*takenError](err)
		return out.ignoreConflict()
	}
	return s.ensurePods(ctx, cs, want.pod, polled).ignoreConflict()
}

// ignoreConflict drops an error caused by a concurrent change, and schedules another reconcile instead.
func (s serving) ignoreConflict() serving {
	if apierrors.IsConflict(s.err) {
		s.err, s.retry, s.recheckAfter = nil, false, conflictPause
	}
	return s
}

// objects contains the objects of a registry.
type objects struct {
	owner   types.UID
	account *corev1.ServiceAccount
	service *corev1.Service
	pod     *corev1.Pod
}

func (s *servers) wanted(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, image registryImage) (objects, error) {
	namespace := &corev1.Namespace{}
	if err := s.own.Get(ctx, types.NamespacedName{Name: cs.Namespace}, namespace); err != nil {
		return objects{}, fmt.Errorf("get Namespace %s: %w", cs.Namespace, err)
	}
	registry := server.Registry{
		Source: cs, Image: image.reference, ByTag: s.byTag, ImageUser: image.user, WorkloadUser: s.workloadUser,
		Restricted: namespace.Labels[labelEnforce] == restricted,
	}
	pod, err := registry.Pod()
	return objects{owner: cs.UID, account: registry.ServiceAccount(), service: registry.Service(), pod: pod}, err
}

// ensurePods performs the next step for the Pods. It uses the cache to decide whether a step is needed, and the API
// server to decide which step: with an outdated cache, Pods would be created twice.
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
			h.recordFailure(step.Failed, hash, polled, s.clock.Now())
			if err = s.execute(ctx, step); err == nil {
				h.recordCreation(step.Create, s.clock.Now())
			}
			_, again = h.hold(hash, polled, s.clock.Now())
		}
	}
	out := serving{any: true, err: err, retry: err != nil, recheckAfter: again, update: h.update(hash)}
	if p := server.Waiting(hash, pods); p != nil {
		out.update = server.NotReadyMessage(cs.Name, p)
	}
	out.observePod(server.Serving(cs.Name, hash, pods))
	return out
}

// execute performs a step. It promotes a Pod before it deletes other Pods.
func (s *servers) execute(ctx context.Context, step server.Step) error {
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

// create creates a Pod. If admission changes the Pod's labels, create deletes the Pod and returns an error. Otherwise,
// Remit would not find the Pod by its labels and would create Pods endlessly.
func (s *servers) create(ctx context.Context, pod *corev1.Pod) error {
	made := pod.DeepCopy()
	if err := s.client.Create(ctx, made); err != nil {
		return fmt.Errorf("create registry Pod: %w", unnamed(err))
	}
	ctrl.LoggerFrom(ctx).Info("Created registry Pod", "pod", made.Name, "image", pod.Spec.Containers[0].Image)
	for _, label := range slices.Sorted(maps.Keys(pod.Labels)) {
		if got, ok := made.Labels[label]; !ok || got != pod.Labels[label] {
			if err := s.delete(ctx, made); err != nil {
				return err
			}
			return fmt.Errorf("create registry Pod: an admission webhook changed the Pod's label %s", label)
		}
	}
	return nil
}

// unnamed removes the generated name of a refused Pod from an error. The name differs for each attempt, so the status would
// otherwise change endlessly.
func unnamed(err error) error {
	refused, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || refused.ErrStatus.Details == nil || refused.ErrStatus.Details.Name == "" {
		return err
	}
	out := refused.ErrStatus.DeepCopy()
	out.Message = strings.ReplaceAll(out.Message, fmt.Sprintf(" %q", out.Details.Name), "")
	return &apierrors.StatusError{ErrStatus: *out}
}

func (s *servers) delete(ctx context.Context, obj client.Object) error {
	err := apply.Delete(ctx, s.client, obj)
	if apierrors.IsConflict(err) {
		return nil // another object has replaced obj
	}
	return err
}

// list lists the Pods that a CatalogSource owns.
func (s *servers) list(ctx context.Context, from client.Reader, cs *operatorsv1alpha1.CatalogSource) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := from.List(ctx, list, client.InNamespace(cs.Namespace), client.HasLabels{names.LabelCatalogSource}); err != nil {
		return nil, fmt.Errorf("list Pods in namespace %s: %w", cs.Namespace, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if server.OwnedBy(&list.Items[i], cs.UID) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// remove deletes all objects of a CatalogSource. It does nothing if none may exist.
func (s *servers) remove(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) error {
	account := &corev1.ServiceAccount{}
	_, err := apply.Read(ctx, s.own, client.ObjectKeyFromObject(cs), account)
	if err != nil {
		return err
	}
	ours := server.OwnedBy(account, cs.UID)
	if !ours && s.histories.Get(client.ObjectKeyFromObject(cs)) == nil {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Removing registry")
	if err := s.removePods(ctx, cs); err != nil {
		return err
	}
	service := &corev1.Service{}
	_, err = apply.Read(ctx, s.live, types.NamespacedName{Namespace: cs.Namespace, Name: server.ServiceName(cs.Name)}, service)
	if err != nil {
		return err
	}
	if server.OwnedBy(service, cs.UID) {
		if err := s.delete(ctx, service); err != nil {
			return err
		}
	}
	if ours {
		if err := s.delete(ctx, account); err != nil {
			return err
		}
	}
	s.histories.Delete(client.ObjectKeyFromObject(cs))
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

func (m *managed) history(key types.NamespacedName) *history {
	return m.histories.Change(key, func(h **history) {
		if *h == nil {
			*h = &history{}
		}
	})
}
