package execute

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// Limits on what is removed from the objects of one plan. Each time that one is sent again costs a request; of fields that are
// siblings, the API server names one at a time.
const (
	// MaxPrunings is how many times one object is sent again.
	MaxPrunings = 20
	// MaxAllPrunings is how many times all objects are, together.
	MaxAllPrunings = 200
	// MaxPruned is the greatest number of fields of all objects.
	MaxPruned = 1_000
)

// Pruned are the paths of fields that the API server does not know, by the object of the step.
type Pruned map[*unstructured.Unstructured]*pruned

type pruned struct {
	paths []string
	times int
}

// Of returns the paths of the fields that were removed from a step's object, sorted.
func (p Pruned) Of(obj *unstructured.Unstructured) []string {
	if p[obj] == nil {
		return nil
	}
	return p[obj].paths
}

// remove takes fields from a step's object and from what is sent of it. It reports whether there were any, within the limits.
func (p Pruned) remove(obj, sent *unstructured.Unstructured, paths []string) bool {
	times, fields := 1, len(paths)
	for _, is := range p {
		times, fields = times+is.times, fields+len(is.paths)
	}
	if p == nil || len(paths) == 0 || times > MaxAllPrunings || fields > MaxPruned {
		return false
	}
	if p[obj] == nil {
		p[obj] = &pruned{}
	}
	if p[obj].times == MaxPrunings {
		return false
	}
	p[obj].times++
	removed := false
	for _, path := range paths {
		if apply.Prune(sent.Object, path) {
			apply.Prune(obj.Object, path)
			p[obj].paths = append(p[obj].paths, path)
			removed = true
		}
	}
	slices.Sort(p[obj].paths)
	p[obj].paths = slices.Compact(p[obj].paths)
	return removed
}

// send writes an object. Fields that the API server does not know are removed, from the step's object too, as it removes them
// from what is not applied but created: an operator's author meant them for another version of Kubernetes, or misspelled them.
func (e *Executor) send(ctx context.Context, writer client.Client, s State, desired *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	for {
		result, live, err := apply.From(ctx, writer, s.Live, desired, s.Step.Owner)
		if err == nil || !e.Pruned.remove(s.Step.Object, desired, apply.Undeclared(err)) {
			return result, live, err
		}
	}
}
