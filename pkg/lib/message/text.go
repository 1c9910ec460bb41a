package message

import "strings"

// Text is lines, followed by YAML documents.
type Text string

// separator begins a document. No other line begins with it.
const separator = "---\n"

// Line returns a string of others as one line.
func Line(text string) Text {
	text = OneLine(text)
	if opening.MatchString(text) {
		text = `\` + text
	}
	return Text(text)
}

// Lines joins texts, each of which begins on a new line, and omits those that are empty. The documents of all texts follow the
// lines.
func Lines(texts ...Text) Text {
	var lines []string
	documents := ""
	for _, t := range texts {
		own, docs := t.split()
		if own = strings.Trim(own, "\n"); own != "" {
			lines = append(lines, own)
		}
		documents += docs
	}
	text := strings.Join(lines, "\n")
	if documents != "" && text != "" {
		text += "\n"
	}
	return Text(text + documents)
}

// Documents returns objects as YAML documents.
func Documents[T any](objs ...T) (Text, error) {
	var out strings.Builder
	for _, obj := range objs {
		text, err := encode(obj)
		if err != nil {
			return "", err
		}
		out.WriteString(separator + text)
	}
	return Text(out.String()), nil
}

// split returns the lines and the documents.
func (t Text) split() (lines, documents string) {
	if strings.HasPrefix(string(t), separator) {
		return "", string(t)
	}
	if i := strings.Index(string(t), "\n"+separator); i >= 0 {
		return string(t[:i]), string(t[i+1:])
	}
	return string(t), ""
}
