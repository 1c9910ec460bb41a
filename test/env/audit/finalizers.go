package audit

import (
	"encoding/json"
	"net/http"
	"slices"
)

// meta has the fields of a returned object that removesFinalizers uses.
type meta struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// removesFinalizers reports whether a patch changes only the finalizers of an object that is being deleted: the API
// server does not allow adding any to such an object (docs/adr/0006). A patch that came too late has changed nothing.
func removesFinalizers(e Event) bool {
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
	switch e.Response.Code {
	case http.StatusNotFound, http.StatusConflict:
		return true
	case http.StatusOK:
		var now meta
		return json.Unmarshal(e.Returned, &now) == nil && now.Metadata.DeletionTimestamp != ""
	}
	return false
}
