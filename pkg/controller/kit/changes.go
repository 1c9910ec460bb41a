package kit

import (
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecChanged returns a predicate that drops the updates of an object that do not change its generation, such as those of its status.
// After an interrupted watch, an update can also report that another object has replaced one with the same name. Its generation may
// be the same, so its UID is compared, too.
func SpecChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, Replaced())
}

// Replaced returns a predicate that drops all updates except those that report another object with the same name.
func Replaced() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() }}
}
