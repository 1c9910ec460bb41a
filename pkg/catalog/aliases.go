package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
)

// CheckAliases rejects YAML in which aliases add more than limit bytes to a document, counting the estimated in-memory size
// of each value. The YAML library limits nodes, not bytes, so a 1 MiB document could otherwise expand to 80 GiB of JSON.
// Text without both an anchor and an alias, which is the usual case, is only scanned.
//
// It also rejects text with too many directives, so that everything that converts YAML is protected from both.
func CheckAliases(data []byte, limit int) error {
	// The documents below omit blank ones, which can have directives.
	if err := checkDirectives(data); err != nil {
		return err
	}
	i := 0
	for _, document := range splitDocuments(data) {
		i++
		if _, err := checkAliases(document, limit); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
	return nil
}

// maxDirectives bounds the lines of a text that begin with "%". The YAML libraries compare each directive with all before it,
// which took minutes for a text of 2 MB.
const maxDirectives = 100

// checkDirectives rejects text with too many lines that YAML could interpret as directives. Besides "\n", a line can end with
// "\r", U+0085, U+2028 or U+2029, whose last bytes also occur in other characters: that only counts lines that are none.
func checkDirectives(text []byte) error {
	wide := bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) // UTF-16
	n := 0
	for i := range text {
		if text[i] != '%' {
			continue
		}
		if wide || i == 0 || bytes.IndexByte([]byte("\n\r\x85\xa8\xa9\xbf"), text[i-1]) >= 0 {
			n++
		}
	}
	if n > maxDirectives {
		return fmt.Errorf("YAML has %d lines that begin with %%, which are directives; at most %d are allowed", n, maxDirectives)
	}
	return nil
}

// hasIndicator reports whether a character occurs where YAML could interpret it as an indicator: anywhere except within a
// word. False positives only cost time.
func hasIndicator(data []byte, indicator byte) bool {
	for start := 0; ; {
		i := bytes.IndexByte(data[start:], indicator)
		if i < 0 {
			return false
		}
		i += start
		if i == 0 || !isWordByte(data[i-1]) {
			return true
		}
		start = i + 1
	}
}

func isWordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_'
}

// isJSON reports whether data is a sequence of JSON values, which cannot contain aliases.
func isJSON(data []byte) bool {
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// checkAliases checks one document. It returns the number of bytes that aliases add to it.
func checkAliases(doc []byte, limit int) (added int, err error) {
	if err := checkDirectives(doc); err != nil {
		return 0, err
	}
	if !hasIndicator(doc, '&') || !hasIndicator(doc, '*') || isJSON(doc) {
		return 0, nil
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(doc, &root); err != nil {
		return 0, err
	}
	e := expansion{sizes: map[*yamlv3.Node]int{}}
	size, err := e.size(&root)
	if err == nil && size > len(doc)+limit {
		err = fmt.Errorf("YAML aliases expand to more than %d bytes", limit)
	}
	// A document can become smaller: an alias has a name, and what it stands for can be empty.
	return max(0, size-sizeWithout(&root)), err
}

// sizeWithout returns the size of a node without what aliases add.
func sizeWithout(n *yamlv3.Node) int {
	size := yamlValue/yamlBytes + len(n.Value)
	for _, child := range n.Content {
		size += sizeWithout(child)
	}
	return size
}

// expansion caches the size of each node with an anchor; zero marks a node that is being measured.
type expansion struct{ sizes map[*yamlv3.Node]int }

func (e expansion) size(n *yamlv3.Node) (int, error) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if n.Anchor != "" {
		if size, ok := e.sizes[n]; ok {
			if size == 0 {
				return 0, fmt.Errorf("YAML anchor %q contains itself", n.Anchor)
			}
			return size, nil
		}
		e.sizes[n] = 0
	}
	size := yamlValue/yamlBytes + len(n.Value)
	for _, child := range n.Content {
		s, err := e.size(child)
		if err != nil {
			return 0, err
		}
		// Cap the size to avoid an overflow: it can double at each level.
		size = min(size+s, 1<<40)
	}
	if n.Anchor != "" {
		e.sizes[n] = size
	}
	return size, nil
}
