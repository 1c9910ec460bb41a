package audit

import (
	"encoding/json"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// writesCopy reports whether the request creates or deletes a ClusterServiceVersion, which admission restricts to copies
// (docs/adr/0053), or is a JSON patch that changes only the content of a copy.
func writesCopy(e Event) bool {
	if e.Verb != "patch" {
		return true
	}
	var operations []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(e.Sent, &operations) != nil {
		return false
	}
	isCopy := false
	for _, o := range operations {
		switch o.Path {
		case "/metadata/labels":
			var labels map[string]string
			isCopy = json.Unmarshal(o.Value, &labels) == nil && labels[names.LabelCopiedFrom] != ""
		case "/metadata/resourceVersion", "/metadata/annotations", "/spec":
		default:
			return false
		}
	}
	return isCopy
}
