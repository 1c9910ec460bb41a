package manifest

import (
	"encoding/json"
	"errors"

	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog"
)

// CheckAliases refuses YAML whose aliases expand too much. It must be called before the text is converted to JSON.
func CheckAliases(data []byte) error {
	return catalog.CheckAliases(data, catalog.MaxContentBytes/4)
}

// List splits a YAML or JSON list into elements, each converted to JSON. For empty text, it returns an empty list.
func List(data []byte) ([][]byte, error) {
	if err := CheckAliases(data); err != nil {
		return nil, err
	}
	object, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, err
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(object, &elements); err != nil {
		return nil, errors.New("value must be a list")
	}
	out := make([][]byte, 0, len(elements))
	for _, e := range elements {
		out = append(out, e)
	}
	return out, nil
}
