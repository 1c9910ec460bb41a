package controller

import (
	"reflect"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// maxConditions is the number of conditions that caches keep of an object. Those that Remit writes are at most 20.
	maxConditions = 100
	// maxStatus is the memory of a status. One that Remit has written takes at most twice as much as its text, which fits into an
	// object. Its lists are removed above that.
	maxStatus = 4 << 20
)

// trimStatus shortens the lists in the status of an object (docs/adr/0066). Whoever may write the status of an InstallPlan can write
// 1.4 MB of empty conditions, which took 35 MiB in two programs, without end if the plan is complete. A controller that writes the
// status compares it with the cached one, and writes whole lists, so that a list that was cut is replaced when it changes. The
// condition that records an account is therefore kept wherever it is: users could otherwise let Remit remove it (docs/adr/0085).
func trimStatus(obj client.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		trimUntyped(u)
		return
	}
	v := reflect.Indirect(reflect.ValueOf(obj))
	if v.Kind() != reflect.Struct {
		return
	}
	status := v.FieldByName("Status")
	if !status.IsValid() || status.Kind() != reflect.Struct || status.IsZero() {
		return
	}
	_, isHistory := obj.(*operatorsv1alpha1.ClusterServiceVersion)
	if conditions := status.FieldByName("Conditions"); conditions.IsValid() && conditions.Kind() == reflect.Slice {
		shorten(conditions, isHistory)
	}
	if budget.Of(status.Addr().Interface()).Memory > maxStatus {
		removeLists(status)
	}
}

// shorten keeps the first conditions of a list, or the last ones of a history. The rest does not stay in memory.
func shorten(list reflect.Value, isHistory bool) {
	n := list.Len()
	if n <= maxConditions {
		return
	}
	kept := list.Slice(0, maxConditions)
	if isHistory {
		kept = list.Slice(n-maxConditions, n)
	}
	kept = reflect.AppendSlice(reflect.MakeSlice(list.Type(), 0, maxConditions), kept)
	for i := maxConditions; i < n && !isHistory; i++ {
		if kind := list.Index(i).FieldByName("Type"); kind.IsValid() && kind.String() == names.ConditionAuthorUnchecked {
			kept.Index(maxConditions - 1).Set(list.Index(i))
			break
		}
	}
	list.Set(kept)
}

// removeLists removes all lists and maps from a struct, except its conditions, at any depth.
func removeLists(v reflect.Value) {
	for i := range v.NumField() {
		field := v.Field(i)
		switch {
		case !field.CanSet():
		case field.Kind() == reflect.Struct:
			removeLists(field)
		case field.Kind() == reflect.Pointer && !field.IsNil() && field.Elem().Kind() == reflect.Struct:
			removeLists(field.Elem())
		case v.Type().Field(i).Name != "Conditions" && (field.Kind() == reflect.Slice || field.Kind() == reflect.Map):
			field.SetZero()
		}
	}
}

// trimUntyped is trimStatus for an object without a Go type.
func trimUntyped(obj *unstructured.Unstructured) {
	status, ok := obj.Object["status"].(map[string]any)
	if !ok {
		return
	}
	conditions, _ := status["conditions"].([]any)
	if len(conditions) > maxConditions {
		kept := slices.Clone(conditions[:maxConditions])
		if i := slices.IndexFunc(conditions, isRecord); i >= maxConditions {
			kept[maxConditions-1] = conditions[i]
		}
		conditions, status["conditions"] = kept, kept
	}
	if budget.Of(status).Memory > maxStatus {
		obj.Object["status"] = map[string]any{"conditions": conditions}
	}
}

// isRecord reports whether a condition records an account.
func isRecord(condition any) bool {
	fields, _ := condition.(map[string]any)
	return fields["type"] == names.ConditionAuthorUnchecked
}
