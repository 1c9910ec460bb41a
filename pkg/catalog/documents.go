package catalog

import (
	"bufio"
	"bytes"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Documents returns a reader of the YAML documents in a text.
func Documents(data []byte) *utilyaml.YAMLReader {
	return utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(EndLine(data))))
}

// EndLine terminates a text's last line. The API machinery's YAML readers lose an unterminated last line whose length is a
// multiple of their buffer size, 4,096: a whole manifest if it is one line of JSON, or, for CheckAliases, a document that
// would not be checked.
func EndLine(data []byte) []byte {
	if len(data) == 0 || data[len(data)-1] == '\n' {
		return data
	}
	return append(data[:len(data):len(data)], '\n')
}
