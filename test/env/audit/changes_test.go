package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChangesCountsCreationsAndDeletions(t *testing.T) {
	made := func(verb, resource, subresource, uri string, code int) Event {
		e := Event{Verb: verb, RequestURI: uri, Object: &Object{APIGroup: "g", Resource: resource, Subresource: subresource, Namespace: "n", Name: "a"}}
		e.Response.Code = code
		return e
	}
	require.Equal(t, map[string]int{"create things.g n/a": 2, "delete things.g n/a": 1}, Changes([]Event{
		made("create", "things", "", "/x", 201), made("patch", "things", "", "/x", 201), made("delete", "things", "", "/x", 200),
		made("create", "things", "", "/x", 409), made("patch", "things", "", "/x", 200), made("delete", "things", "", "/x", 404),
		made("create", "things", "", "/x?dryRun=All", 201), made("create", "things", "token", "/x", 201),
		made("create", "events", "", "/x", 201), {Verb: "post", RequestURI: "/x"},
	}))
}
