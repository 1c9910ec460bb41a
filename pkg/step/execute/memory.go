package execute

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/step"
)

// FreeMemory limits the estimated memory of the existing objects of each install, in bytes, and MaxMemory that of one that has a place
// (Executor.Place). Others than the install may have written these objects. MaxForTargets is the memory of those for target namespaces,
// in addition to MaxMemory, so that users of targets cannot use the memory of the other objects.
const (
	FreeMemory    = 16 << 20
	MaxMemory     = 48 << 20
	MaxForTargets = 48 << 20
)

// targetAllowance is what an existing object for a target may need in addition to twice the memory of the wanted object, for managed fields
// and metadata. Both together need about 20 KiB if only the install has written the object.
const targetAllowance = 128 << 10

// memory counts the memory of the existing objects of an install. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	taken int64
	// targets is the memory of the objects for target namespaces.
	targets int64
	// largest is the object that needs the most memory, and its cost.
	largest string
	cost    int64
	// refused is the error of the Place, so that the objects that are read at the same time have the same result.
	refused error
}

// taking returns the function that counts the memory of the existing object of a step.
func (e *Executor) taking(s step.Step) func(cost int64) error {
	if IsForTarget(s.Object, s.Owner) {
		return func(cost int64) error { return e.takeForTarget(s.Object, cost) }
	}
	return func(cost int64) error { return e.take(s.Object, cost) }
}

func (e *Executor) take(obj *unstructured.Unstructured, cost int64) error {
	m := &e.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken += cost
	if cost > m.cost {
		m.largest, m.cost = apply.Describe(obj), cost
	}
	if m.taken > MaxMemory && m.refused == nil {
		return fmt.Errorf("the existing objects of the install would need more than %d MiB of memory; %s needs the most, about %d MiB", MaxMemory>>20, m.largest, m.cost>>20)
	}
	return e.place()
}

// takeForTarget refuses an object for a target with an *apply.TooLargeError, which affects only the target.
func (e *Executor) takeForTarget(obj *unstructured.Unstructured, cost int64) error {
	if err := fitsTarget(obj, cost); err != nil {
		return err
	}
	m := &e.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.targets+cost > MaxForTargets {
		return &apply.DelayedError{Why: fmt.Sprintf("%s cannot be compared: the existing objects in all target namespaces would need more than %d MiB of memory together",
			apply.Describe(obj), MaxForTargets>>20)}
	}
	m.targets += cost
	return e.place()
}

// place asks for a place if the objects need much memory.
func (e *Executor) place() error {
	m := &e.memory
	if m.taken+m.targets > FreeMemory && m.refused == nil {
		m.refused = e.Place()
	}
	return m.refused
}

// fitsTarget returns an *apply.TooLargeError if an existing object for a target needs much more memory than the wanted object: anybody who
// may write it can make it as large as the API server allows, for example by its managed fields.
func fitsTarget(wanted *unstructured.Unstructured, cost int64) error {
	text, err := wanted.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode %s: %w", apply.Describe(wanted), err)
	}
	if limit := 2*budget.JSONCost(text) + targetAllowance; cost > limit {
		return &apply.TooLargeError{Object: apply.Describe(wanted), Cost: cost, Limit: limit}
	}
	return nil
}

// restart begins to count again: the objects that were read before are not kept together with the next ones.
func (m *memory) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken, m.targets, m.refused = 0, 0, nil
	m.largest, m.cost = "", 0
}
