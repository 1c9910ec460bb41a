package installplan

import (
	"encoding/json"
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

const (
	// minRetryDelay and retryFactor define the delays between retries if no watch reports the change that a plan waits for
	// (a quota, a policy, another owner's webhook, a registry): half a second at first, and twice as long each time, up to
	// maxRetryDelay. The delay between removal of the cause and the next retry is therefore never longer than the time for
	// which the plan was blocked.
	minRetryDelay = 500 * time.Millisecond
	retryFactor   = 2
	maxRetryDelay = 5 * time.Minute
	// cacheLag is how long the cache is expected to take to show a status that this controller has written.
	cacheLag = 250 * time.Millisecond
)

// memory contains what the controller remembers about each unfinished plan, so that retries do not repeat requests.
type memory struct {
	keyed.Map[types.NamespacedName, remembered]
}

type remembered struct {
	// delay is the current retry delay. status is the hash of the last written status.
	delay  time.Duration
	status string
	report published
	// schemas contains, for each existing CustomResourceDefinition that the plan changes, what the account needs for
	// the change, and the result of checking its objects. It is required because the informer cache contains neither
	// schemas nor custom resources.
	schemas map[string]compared
}

func (m *memory) changeSchema(plan types.NamespacedName, crd string, change func(*compared)) {
	m.Change(plan, func(is *remembered) {
		if is.schemas == nil {
			is.schemas = map[string]compared{}
		}
		schema := is.schemas[crd]
		change(&schema)
		is.schemas[crd] = schema
	})
}

// next returns the delay until the next retry of a refused plan. The delay grows with each call.
func (m *memory) next(plan types.NamespacedName) (delay time.Duration) {
	m.Change(plan, func(is *remembered) {
		is.delay = min(max(is.delay*retryFactor, minRetryDelay), maxRetryDelay)
		delay = is.delay
	})
	return delay
}

// passed resets the retry delay of a plan that was not refused.
func (m *memory) passed(plan types.NamespacedName) {
	m.Change(plan, func(is *remembered) { is.delay = 0 })
}

// writes records the hash of a status before the status is written, because the event may arrive before the response.
func (m *memory) writes(plan types.NamespacedName, ip *operatorsv1alpha1.InstallPlan) error {
	text, err := statusHash(ip)
	if err == nil {
		m.Change(plan, func(is *remembered) { is.status = text })
	}
	return err
}

func (m *memory) wrote(plan types.NamespacedName, ip *operatorsv1alpha1.InstallPlan) bool {
	text, err := statusHash(ip)
	return err == nil && m.Get(plan).status == text
}

// statusHash returns the hash of the status as the API server stores it.
func statusHash(ip *operatorsv1alpha1.InstallPlan) (string, error) {
	text, err := json.Marshal(ip.Status)
	if err != nil {
		return "", fmt.Errorf("encode status: %w", err)
	}
	return ownerutil.Hash(string(text)), nil
}

// othersChanges returns a predicate that drops the event for a status that this controller has just written. Without it,
// a message that differs each time, such as one from a webhook, would wake the plan in an endless loop. Statuses that
// other clients write still wake the plan.
func (m *memory) othersChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1alpha1.InstallPlan)
		after, is := e.ObjectNew.(*operatorsv1alpha1.InstallPlan)
		if !ok || !is || before.UID != after.UID || !sameButStatus(before, after) {
			return true
		}
		return !m.wrote(types.NamespacedName{Namespace: after.Namespace, Name: after.Name}, after)
	}}
}

func sameButStatus(a, b *operatorsv1alpha1.InstallPlan) bool {
	return a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}
