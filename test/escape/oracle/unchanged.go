package oracle

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/test/env/audit"
)

// completeEvery is how often a Check lists all resources, to find changes that are missing from the audit log: the first Check does, and
// every tenth one after it.
const completeEvery = 10

// unchanged returns the part of the last snapshot that is still true according to the audit log. requests contains the requests
// since the last Check. Listing the other resources would account for a third of the suite's requests.
func (o *Oracle) unchanged(requests []audit.Event) *Snapshot {
	if o.listAll || o.Checks%completeEvery == 0 {
		return newSnapshot()
	}
	changed := map[schema.GroupResource]bool{}
	for _, events := range [][]audit.Event{o.late, requests} {
		for _, e := range events {
			if !mayHaveWritten(e) {
				continue
			}
			resources, known := o.last.changedBy(e)
			if !known {
				return newSnapshot()
			}
			for _, resource := range resources {
				changed[resource] = true
			}
		}
	}
	return o.last.without(changed)
}

// mayHaveWritten reports whether a request may have changed an object. Reviews only answer questions. A deletecollection fails as soon
// as one object cannot be deleted, possibly after others have been deleted.
func mayHaveWritten(e audit.Event) bool {
	refused := e.Response.Code/100 == 4 && e.Verb != "deletecollection"
	return e.IsWrite() && !refused && (e.Object == nil || e.Object.APIGroup != "authentication.k8s.io" && e.Object.APIGroup != "authorization.k8s.io")
}

// changedBy returns the resources that a request may have changed. It returns false if it may have changed any resource: when a
// CustomResourceDefinition is deleted, the API server deletes all its objects without requests.
func (s *Snapshot) changedBy(e audit.Event) ([]schema.GroupResource, bool) {
	if e.Object == nil {
		return nil, false
	}
	resource := schema.GroupResource{Group: e.Object.APIGroup, Resource: e.Object.Resource}
	switch resource {
	case schemas:
		return nil, false
	case duplicates:
		resource = schema.GroupResource{Resource: "events"}
	case services:
		return []schema.GroupResource{services, endpoints}, true // the API server deletes the Endpoints of a deleted Service
	}
	_, listed := s.bodies[resource]
	return []schema.GroupResource{resource}, listed
}

var (
	services  = schema.GroupResource{Resource: "services"}
	endpoints = schema.GroupResource{Resource: "endpoints"}
)

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
