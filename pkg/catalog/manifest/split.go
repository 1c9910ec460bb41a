package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog"
)

// CheckAliases refuses YAML whose aliases expand too much. It must be called before the text is converted to JSON.
func CheckAliases(data []byte) error {
	return catalog.CheckAliases(data, catalog.MaxContentBytes/4)
}

// Split splits a YAML or JSON file into documents, each converted to JSON. It drops empty documents.
func Split(data []byte) ([][]byte, error) {
	if err := CheckAliases(data); err != nil {
		return nil, err
	}
	reader := catalog.Documents(data)
	var out [][]byte
	for i := 1; ; i++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		object, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if object = bytes.TrimSpace(object); !bytes.Equal(object, []byte("null")) {
			out = append(out, object)
		}
	}
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
