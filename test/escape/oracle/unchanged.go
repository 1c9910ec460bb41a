package oracle

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/test/env/audit"
)

// completeEvery is how often a Check lists all resources: the first time, and then every tenth time. It would then find a change
// that the audit log does not contain.
const completeEvery = 10

// unchanged returns the part of the last snapshot that is still true according to the audit log. requests are the requests since
// the last Check. Most resources never change, and listing them would cause a third of the suite's requests.
func (o *Oracle) unchanged(requests []audit.Event) *Snapshot {
	if o.Checks%completeEvery == 0 {
		return newSnapshot()
	}
	changed := map[schema.GroupResource]bool{}
	for _, events := range [][]audit.Event{o.late, requests} {
		for _, e := range events {
			if !mayHaveWritten(e) {
				continue
			}
			resource, known := o.last.changedBy(e)
			if !known {
				return newSnapshot()
			}
			changed[resource] = true
		}
	}
	return o.last.without(changed)
}

// mayHaveWritten reports whether a request may have changed an object. Reviews only answer questions.
func mayHaveWritten(e audit.Event) bool {
	refused := e.Response.Code/100 == 4
	return e.IsWrite() && !refused && (e.Object == nil || e.Object.APIGroup != "authentication.k8s.io" && e.Object.APIGroup != "authorization.k8s.io")
}

// changedBy returns the resource that a request changed. It returns false if the request may also have changed others: when a
// CustomResourceDefinition is deleted, the API server deletes all its objects without requests.
func (s *Snapshot) changedBy(e audit.Event) (schema.GroupResource, bool) {
	if e.Object == nil {
		return schema.GroupResource{}, false
	}
	resource := schema.GroupResource{Group: e.Object.APIGroup, Resource: e.Object.Resource}
	if resource == duplicates {
		resource = schema.GroupResource{Resource: "events"}
	}
	_, listed := s.bodies[resource]
	return resource, listed && resource != schemas
}

// without returns the snapshot without some of its resources.
func (s *Snapshot) without(changed map[schema.GroupResource]bool) *Snapshot {
	out := newSnapshot()
	maps.Copy(out.objects, s.objects)
	maps.DeleteFunc(out.objects, func(key Key, _ version) bool { return changed[key.GroupResource] })
	for resource, body := range s.bodies {
		if !changed[resource] {
			out.bodies[resource], out.resources[resource] = body, s.resources[resource]
		}
	}
	return out
}
