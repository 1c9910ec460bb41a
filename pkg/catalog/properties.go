package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// MaxPropertiesText bounds what an installed ClusterServiceVersion notes of its bundle's properties: an API server
// takes 256 KiB of annotations.
const MaxPropertiesText = 64 << 10

// PropertiesText is how a ClusterServiceVersion notes the properties of its bundle, in the annotation
// operatorframework.io/properties (contract 1.3); "" where there are none, or more than fit there.
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
	encoder.SetEscapeHTML(false) // people read ranges of versions
	err := encoder.Encode(struct {
		Properties []Property `json:"properties"`
	}{properties})
	if err != nil || out.Len() > MaxPropertiesText {
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}
