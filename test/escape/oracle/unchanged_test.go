package oracle

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/test/env/audit"
)

func TestASnapshotListsWhatRequestsMayHaveChanged(t *testing.T) {
	request := func(verb, group, resource string, code int) audit.Event {
		e := audit.Event{Verb: verb, RequestURI: "/x", Object: &audit.Object{APIGroup: group, Resource: resource, Namespace: "n", Name: "a"}}
		e.Response.Code = code
		return e
	}
	pods, roles := schema.GroupResource{Resource: "pods"}, rbacResource("roles")
	events := schema.GroupResource{Resource: "events"}
	all := []schema.GroupResource{pods, roles, events, services, endpoints, schemas}
	created := func(group, resource string) audit.Event {
		return request("create", group, resource, http.StatusCreated)
	}
	dryRun := created("", "pods")
	dryRun.RequestURI = "/x?dryRun=All"
	for name, test := range map[string]struct {
		checks         int
		listAll        bool
		late, requests []audit.Event
		want           []schema.GroupResource
	}{
		"no writes":                     {checks: 1, requests: []audit.Event{request("get", "", "pods", http.StatusOK)}},
		"a write":                       {checks: 1, requests: []audit.Event{created("", "pods")}, want: []schema.GroupResource{pods}},
		"several writes":                {checks: 1, requests: []audit.Event{request("get", "", "x", http.StatusOK), created("", "pods"), created(roles.Group, "roles")}, want: []schema.GroupResource{pods, roles}},
		"a write while it was listed":   {checks: 1, late: []audit.Event{request("patch", roles.Group, "roles", http.StatusOK)}, want: []schema.GroupResource{roles}},
		"writes while and after":        {checks: 1, late: []audit.Event{created("", "pods")}, requests: []audit.Event{created(roles.Group, "roles")}, want: []schema.GroupResource{pods, roles}},
		"a write that was forbidden":    {checks: 1, requests: []audit.Event{request("create", "", "pods", http.StatusForbidden)}},
		"a write that conflicted":       {checks: 1, requests: []audit.Event{request("update", "", "pods", http.StatusConflict)}},
		"a write that timed out":        {checks: 1, requests: []audit.Event{request("create", "", "pods", http.StatusGatewayTimeout)}, want: []schema.GroupResource{pods}},
		"a dry run":                     {checks: 1, requests: []audit.Event{dryRun}},
		"a review of access":            {checks: 1, requests: []audit.Event{created("authorization.k8s.io", "subjectaccessreviews")}},
		"a review of a token":           {checks: 1, requests: []audit.Event{created("authentication.k8s.io", "tokenreviews")}},
		"an event in its other group":   {checks: 1, requests: []audit.Event{created("events.k8s.io", "events")}, want: []schema.GroupResource{events}},
		"a Service":                     {checks: 1, requests: []audit.Event{request("delete", "", "services", http.StatusOK)}, want: []schema.GroupResource{services, endpoints}},
		"a CustomResourceDefinition":    {checks: 1, requests: []audit.Event{request("delete", schemas.Group, schemas.Resource, http.StatusOK)}, want: all},
		"a resource that is not listed": {checks: 1, requests: []audit.Event{created("", "bindings")}, want: all},
		"a request without a resource":  {checks: 1, requests: []audit.Event{{Verb: "post", RequestURI: "/x"}}, want: all},
		"the first check":               {checks: 0, want: all},
		"every tenth check":             {checks: 2 * completeEvery, want: all},
		"on request":                    {checks: 1, listAll: true, want: all},
		"a deletion of a collection":    {checks: 1, requests: []audit.Event{request("deletecollection", "", "pods", http.StatusOK)}, want: []schema.GroupResource{pods}},
		"a deletion that stopped early": {checks: 1, requests: []audit.Event{request("deletecollection", "", "pods", http.StatusForbidden)}, want: []schema.GroupResource{pods}},
	} {
		t.Run(name, func(t *testing.T) {
			last := newSnapshot()
			for _, r := range all {
				last.resources[r], last.bodies[r] = r.WithVersion("v1"), []byte(`{"items":[]}`)
				last.objects[Key{r, "n", "a"}] = version{"uid", "1"}
			}
			o := &Oracle{last: last, late: test.late, Checks: test.checks, listAll: test.listAll}
			kept := o.unchanged(test.requests)
			var listed []schema.GroupResource
			for _, r := range all {
				_, known := kept.resources[r]
				_, body := kept.bodies[r]
				_, object := kept.objects[Key{r, "n", "a"}]
				require.Equal(t, []bool{known, known}, []bool{body, object}, r)
				if !known {
					listed = append(listed, r)
				}
			}
			require.Equal(t, test.want, listed)
			require.Len(t, last.bodies, len(all), "the last snapshot must not change")
			require.Len(t, last.objects, len(all), "the last snapshot must not change")
		})
	}
}
