package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Property types for which operator-registry has no constants. One operator provides a label that another operator
// requires (OLM v0 contract).
const (
	TypeLabel         = "olm.label"
	TypeLabelRequired = "olm.label.required"
)

// MaxPropertiesText bounds the properties that a ClusterServiceVersion records: the API server accepts at most 256 KiB of
// annotations.
const MaxPropertiesText = 64 << 10

// PropertiesText returns a bundle's properties in the form that its ClusterServiceVersion records in the annotation
// operatorframework.io/properties (OLM v0 contract), or "" if there are none or they are too large.
func PropertiesText(properties []Property) string {
	size := 0
	for _, p := range properties {
		size += len(p.Type) + len(p.Value)
	}
	if size == 0 || size > MaxPropertiesText {
		return ""
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // keep version ranges readable
	err := encoder.Encode(struct {
		Properties []Property `json:"properties"`
	}{properties})
	if err != nil || out.Len() > MaxPropertiesText {
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}
