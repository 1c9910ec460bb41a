package installplan

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

const (
	// firstLook and lookGrowth give the delays between retries of what no watch announces (a quota, a policy, a webhook
	// of somebody else, a registry): half a second, and twice as long each time, up to lastLook. So nobody who removes the cause
	// waits longer than the plan has been blocked.
	firstLook  = 500 * time.Millisecond
	lookGrowth = 2
	lastLook   = 5 * time.Minute
	// behind is how long the cache is given to show a status that this controller wrote itself.
	behind = 250 * time.Millisecond
)

// waits remembers, of each unfinished plan, how often it was refused and the status that was written last.
type waits struct {
	mu    sync.Mutex
	known map[types.NamespacedName]waited
}

type waited struct {
	delay  time.Duration
	status string
}

func (w *waits) change(plan types.NamespacedName, change func(*waited)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = map[types.NamespacedName]waited{}
	}
	is := w.known[plan]
	change(&is)
	w.known[plan] = is
}

func (w *waits) forget(plan types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, plan)
}

// next is the time to the next retry of a plan that was refused, longer each time.
func (w *waits) next(plan types.NamespacedName) (delay time.Duration) {
	w.change(plan, func(is *waited) {
		is.delay = min(max(is.delay*lookGrowth, firstLook), lastLook)
		delay = is.delay
	})
	return delay
}

// passed says that a plan was not refused: the next refusal is retried soon.
func (w *waits) passed(plan types.NamespacedName) {
	w.change(plan, func(is *waited) { is.delay = 0 })
}

// writes notes a status before it is written, since its event may come before the answer.
func (w *waits) writes(plan types.NamespacedName, ip *operatorsv1alpha1.InstallPlan) error {
	text, err := statusHash(ip)
	if err == nil {
		w.change(plan, func(is *waited) { is.status = text })
	}
	return err
}

func (w *waits) wrote(plan types.NamespacedName, ip *operatorsv1alpha1.InstallPlan) bool {
	text, err := statusHash(ip)
	w.mu.Lock()
	defer w.mu.Unlock()
	return err == nil && w.known[plan].status == text
}

// statusHash is of the status as the API server keeps it.
func statusHash(ip *operatorsv1alpha1.InstallPlan) (string, error) {
	text, err := json.Marshal(ip.Status)
	if err != nil {
		return "", fmt.Errorf("encode status: %w", err)
	}
	return ownerutil.Hash(string(text)), nil
}

// othersChanges drops the events of the status that this controller has just written: a message that differs each time,
// as those of webhooks may, would otherwise wake the plan for ever. A status that somebody else wrote is reconciled.
func (w *waits) othersChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1alpha1.InstallPlan)
		after, is := e.ObjectNew.(*operatorsv1alpha1.InstallPlan)
		if !ok || !is || before.UID != after.UID || !sameButStatus(before, after) {
			return true
		}
		return !w.wrote(types.NamespacedName{Namespace: after.Namespace, Name: after.Name}, after)
	}}
}

func sameButStatus(a, b *operatorsv1alpha1.InstallPlan) bool {
	return a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}
