package catalog

import (
	"bufio"
	"bytes"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Documents returns a reader for the YAML documents in text.
func Documents(data []byte) *utilyaml.YAMLReader {
	return utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(EndLine(data))))
}

// EndLine terminates the last line of text. The API machinery's YAML readers lose an unterminated last line whose
// length is a multiple of their buffer size, 4,096. That line can be a whole manifest in JSON, or a document that
// CheckAliases would then miss.
func EndLine(data []byte) []byte {
	if len(data) == 0 || data[len(data)-1] == '\n' {
		return data
	}
	return append(data[:len(data):len(data)], '\n')
}
