package message

import (
	"strings"

	"sigs.k8s.io/yaml"
)

// Reread returns a text that was read from a status, where others may have changed it. Each line is one line. The documents are
// encoded again; they are omitted if one of them is not an object.
func Reread(text string) Text {
	lines, documents := text, ""
	if i := strings.Index("\n"+text, "\n"+separator); i >= 0 {
		lines, documents = text[:i], text[i:]
	}
	var out []Text
	for line := range strings.Lines(lines) {
		out = append(out, Line(strings.TrimSuffix(line, "\n")))
	}
	return Lines(append(out, rereadDocuments(documents))...)
}

func rereadDocuments(documents string) Text {
	var objects []map[string]any
	for document := range strings.SplitSeq(strings.TrimPrefix(documents, separator), "\n"+separator) {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil || len(object) == 0 {
			return ""
		}
		objects = append(objects, object)
	}
	out, err := Documents(objects...)
	if err != nil {
		return ""
	}
	return out
}
