package preflight

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// RefuseUnserved adds a refusal to the report for each object whose kind is neither defined by a
// CustomResourceDefinition of the plan nor served by the cluster. Once kinds.MaxUnserved unserved kinds are found,
// objects of further kinds are not checked.
func (r *Report) RefuseUnserved(steps []step.Step, isServed func(schema.GroupVersionKind) (bool, error)) error {
	planned, unserved, unchecked := execute.PlannedKinds(steps), sets.Set[schema.GroupVersionKind]{}, 0
	for _, s := range steps {
		gvk := s.Object.GroupVersionKind()
		switch {
		case planned[gvk.GroupKind()]:
			continue
		case unserved.Has(gvk):
		case len(unserved) >= kinds.MaxUnserved:
			unchecked++
			continue
		default:
			is, err := isServed(gvk)
			if err != nil {
				return err
			}
			if is {
				continue
			}
			unserved.Insert(gvk)
		}
		r.Refuse(apply.Describe(s.Object), &execute.UnservedError{GVK: gvk, Name: s.Object.GetName()})
	}
	if unchecked > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d kinds are not served by the cluster; the kinds of %d more objects were not checked", kinds.MaxUnserved, unchecked))
	}
	return nil
}
