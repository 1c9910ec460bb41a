package catalog

import (
	"bufio"
	"bytes"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Documents reads one YAML document of a text after the other.
func Documents(data []byte) *utilyaml.YAMLReader {
	return utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(EndLine(data))))
}

// EndLine gives a text's last line an end. The API machinery's readers of YAML lose a last line that has
// none and whose length is a multiple of their buffer's, 4,096: a whole manifest, where that is one line
// of JSON, and for CheckAliases a document that is never looked at.
func EndLine(data []byte) []byte {
	if len(data) == 0 || data[len(data)-1] == '\n' {
		return data
	}
	return append(data[:len(data):len(data)], '\n')
}
