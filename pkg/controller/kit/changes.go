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

// DropExisting returns a predicate that drops the objects that exist when a watch begins. It is for watches whose handlers find the objects
// that a change affects, if the controller's own watch enqueues all of these objects at that time anyway. A controller waits until
// its handlers have seen all existing objects, and the program ends if that takes too long, so a handler that lists other objects
// for each of them would stop the program as long as a namespace contains many of both (docs/adr/0066). Do not use it if an
// existing object can be all that is left of something that was deleted while the program did not run.
func DropExisting() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}
