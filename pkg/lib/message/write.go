package message

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// JSON encodes an object, indented. It escapes unsafe characters.
func JSON(obj any) (Text, error) {
	return encode(obj, func(r rune) (out string) {
		for _, unit := range utf16.Encode([]rune{r}) {
			out += fmt.Sprintf(`\u%04x`, unit)
		}
		return out
	})
}

// encode encodes an object as JSON, in which only strings can contain unsafe characters.
func encode(obj any, escape func(rune) string) (Text, error) {
	text, err := json.MarshalIndent(obj, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r == '\n' || !isUnsafe(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(escape(r))
		}
	}
	return Text(out.String() + "\n"), nil
}

// YAML encodes an object. If strings contain unsafe characters, it encodes all of the object in the style of JSON, because block
// style does not escape all of them. The same applies to the key <<, which is not quoted in block style.
func YAML(obj any) (Text, error) {
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
			return Text(text), nil
		}
	}
	text, err := encode(obj, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
	if err == nil {
		_, err = yaml.YAMLToJSON([]byte(text)) // in this style, YAML does not allow keys of more than 1024 characters
	}
	return text, err
}

// isSafe reports whether a text of several lines contains no unsafe characters except line breaks.
func isSafe(text string) bool { return IsPlain(strings.ReplaceAll(text, "\n", "")) }

// Fprintf writes a formatted Text.
func Fprintf(out io.Writer, f Format, args ...any) (int, error) {
	return io.WriteString(out, string(Sprintf(f, args...)))
}

// Fprintln writes the arguments as one line, separated by spaces. The lines of arguments of type Text remain lines.
func Fprintln(out io.Writer, args ...any) (int, error) {
	f := strings.TrimSuffix(strings.Repeat("%v ", len(args)), " ")
	return io.WriteString(out, string(Sprintf(Format(f), args...))+"\n")
}
