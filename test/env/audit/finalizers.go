package audit

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// statusClientClosedRequest is the code that the API server logs when the client closed the connection before the response.
const statusClientClosedRequest = 499

// meta contains the parts of a returned object's metadata that removesFinalizers needs.
type meta struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// removesFinalizers reports whether the request is a patch that changes only the finalizers of an object that is being deleted.
// The API server does not allow adding finalizers to such an object (docs/adr/0006). A patch that fails because the object has
// already been deleted or changed also counts, since it has no effect. So does one without a response, because the program was
// killed or the API server timed out.
func removesFinalizers(e Event) bool {
	if !patchesFinalizers(e) {
		return false
	}
	switch e.Response.Code {
	case http.StatusNotFound, http.StatusConflict, statusClientClosedRequest, http.StatusGatewayTimeout:
		return true
	case http.StatusOK:
		var now meta
		return json.Unmarshal(e.Returned, &now) == nil && now.Metadata.DeletionTimestamp != ""
	}
	return false
}

// patchesFinalizers reports whether the request is a patch that changes only finalizers.
func patchesFinalizers(e Event) bool {
	var patch map[string]json.RawMessage
	if json.Unmarshal(e.Sent, &patch) != nil || len(patch) != 1 {
		return false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(patch["metadata"], &fields) != nil {
		return false
	}
	for field := range fields {
		if !slices.Contains([]string{"finalizers", "resourceVersion", "uid"}, field) {
			return false
		}
	}
	return true
}

// replacesAccount reports whether the request is a patch that changes only the annotation with the last account.
func replacesAccount(e Event) bool {
	var patch map[string]map[string]json.RawMessage
	if json.Unmarshal(e.Sent, &patch) != nil || len(patch) != 1 {
		return false
	}
	for field := range patch["metadata"] {
		if !slices.Contains([]string{"annotations", "resourceVersion", "uid"}, field) {
			return false
		}
	}
	var annotations map[string]*string
	return json.Unmarshal(patch["metadata"]["annotations"], &annotations) == nil && len(annotations) == 1 && annotations[names.AnnotationAccount] != nil
}
