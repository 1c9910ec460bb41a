package message

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// encode returns an object as YAML. If strings contain unsafe characters, it encodes all of the object in the style of JSON, because
// block style does not escape all of them. The same applies to the key <<, which is not quoted in block style.
func encode(obj any) (string, error) {
	plain, err := json.Marshal(obj)
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	if merges := strings.Contains(string(plain), `"\u003c\u003c"`); IsPlain(string(plain)) && !merges {
		text, err := yaml.JSONToYAML(plain)
		if err != nil {
			return "", fmt.Errorf("encode: %w", err)
		}
		if isSafe(string(text)) {
			return string(text), nil
		}
	}
	text, err := flow(obj)
	if err == nil {
		_, err = yaml.YAMLToJSON([]byte(text)) // in this style, YAML does not allow keys of more than 1024 characters
	}
	return text, err
}

// flow encodes an object as JSON, in which only strings can contain unsafe characters, and escapes these as YAML does.
func flow(obj any) (string, error) {
	text, err := json.MarshalIndent(obj, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r == '\n' || !isUnsafe(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	return out.String() + "\n", nil
}

// isSafe reports whether a text of several lines contains no unsafe characters except line breaks.
func isSafe(text string) bool { return IsPlain(strings.ReplaceAll(text, "\n", "")) }
