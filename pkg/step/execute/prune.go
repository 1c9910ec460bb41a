package execute

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// Limits for removing fields from the objects of one plan. Each retry costs a request, and the API server reports only
// one of several unknown sibling fields at a time.
const (
	// MaxPrunings is the number of retries for one object.
	MaxPrunings = 20
	// MaxAllPrunings is the number of retries for all objects together.
	MaxAllPrunings = 200
	// MaxPruned is the number of fields that the API server may report for all objects together. It reports a field
	// of a list separately for each element.
	MaxPruned = 1_000
)

// Pruned contains, for each step's object, the paths of fields that the API server does not recognize.
type Pruned map[*unstructured.Unstructured]*pruned

type pruned struct {
	fields []apply.Field
	times  int
	named  int
}

// Of returns the sorted paths of the fields that were removed from a step's object.
func (p Pruned) Of(obj *unstructured.Unstructured) []string {
	if p[obj] == nil {
		return nil
	}
	var paths []string
	for _, field := range p[obj].fields {
		paths = append(paths, field.String())
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// removable reports whether unknown fields may be removed from an object. They must be kept if a misspelled field could
// have been meant to restrict the object, such as resourceName in a rule or form in a NetworkPolicy.
func removable(obj *unstructured.Unstructured) bool {
	kind := obj.GroupVersionKind().GroupKind()
	return kind.Group != rbacv1.GroupName && kind != networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy").GroupKind()
}

// remove removes the fields named in an API server's error from a step's object and from the object to be sent. It
// reports whether it removed any. If that would exceed a limit, it removes none.
func (p Pruned) remove(obj, sent *unstructured.Unstructured, answer error) bool {
	if p == nil || !removable(obj) {
		return false
	}
	fields, named := apply.Undeclared(answer, sent.Object)
	if len(fields) == 0 || !p.count(obj, named) {
		return false
	}
	removed := false
	for _, field := range fields {
		if field.Remove(sent.Object) {
			field.Remove(obj.Object)
			p[obj].fields = append(p[obj].fields, field)
			removed = true
		}
	}
	return removed
}

// count records that an object is sent again, and reports whether the limits allow it.
func (p Pruned) count(obj *unstructured.Unstructured, named int) bool {
	times, all := 1, named
	for _, is := range p {
		times, all = times+is.times, all+is.named
	}
	if times > MaxAllPrunings || all > MaxPruned {
		return false
	}
	if p[obj] == nil {
		p[obj] = &pruned{}
	}
	if p[obj].times == MaxPrunings {
		return false
	}
	p[obj].times++
	p[obj].named += named
	return true
}

// send writes an object. If the API server does not recognize some of its fields, send removes these fields, also from
// the step's object, and writes the object again. The API server itself drops unknown fields when objects are created
// without apply. The operator's author intended these fields for another version of Kubernetes, or misspelled them.
func (e *Executor) send(ctx context.Context, writer client.Client, s State, desired *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	for {
		result, live, err := apply.From(ctx, writer, s.Live, desired, s.Step.Owner)
		if err == nil || ctx.Err() != nil || !e.Pruned.remove(s.Step.Object, desired, err) {
			return result, live, err
		}
	}
}
