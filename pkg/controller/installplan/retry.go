package installplan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

const (
	// minRetryDelay and retryFactor define the delays between retries if no watch reports the change that a plan waits for
	// (a quota, a policy, another owner's webhook, a registry): half a second at first, and twice as long each time, up to
	// maxRetryDelay. The delay between removal of the cause and the next retry is therefore never longer than the time for
	// which the plan was blocked.
	minRetryDelay = 500 * time.Millisecond
	retryFactor   = 2
	maxRetryDelay = 5 * time.Minute
)

// memory contains what the controller remembers about each unfinished plan, so that retries do not repeat requests.
type memory struct {
	keyed.Map[types.NamespacedName, remembered]
}

type remembered struct {
	// delay is the current retry delay.
	delay  time.Duration
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
