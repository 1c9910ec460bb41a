package message

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Text is lines, without a line break at the end, followed by YAML documents. Conversions of other strings to Text are not
// allowed outside of this package.
type Text string

// Format is the type of format strings, which are constants. Conversions of other strings to Format are not allowed outside of
// this package.
type Format string

// Indent returns the format with its first line indented by twice the number of spaces.
func (f Format) Indent(depth int) Format { return Format(strings.Repeat("  ", depth)) + f }

const (
	// separator begins a document. No other line begins with it.
	separator = "---\n"
	// mark precedes each string of others until the lines are known. OneLine removes it from strings.
	mark = "\x00"
)

// Sprintf formats a Text. The lines are those of the format and of arguments of type Text. Every other argument is part of one
// line. The documents of all arguments follow the lines.
func Sprintf(f Format, args ...any) Text {
	wrapped := make([]any, len(args))
	documents := ""
	for i, arg := range args {
		switch a := arg.(type) {
		case Text:
			lines, docs := a.split()
			wrapped[i] = string(lines)
			documents += string(docs)
		case error:
			lines, docs := Of(a).split()
			wrapped[i] = string(lines)
			documents += string(docs)
		default:
			wrapped[i] = foreign{arg}
		}
	}
	lines := strings.Split(fmt.Sprintf(string(f), wrapped...), "\n")
	for i, line := range lines {
		lines[i] = finish(line)
	}
	return assemble(strings.Join(lines, "\n"), documents)
}

// foreign is an argument that may contain strings of others.
type foreign struct{ value any }

// Format implements fmt.Formatter.
func (v foreign) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, mark+OneLine(fmt.Sprintf(fmt.FormatString(f, verb), v.value))) // a fmt.State returns no errors
}

// finish removes the marks from a line, and guards the line if its beginning is not entirely from the format.
func finish(line string) string {
	own, _, marked := strings.Cut(line, mark)
	line = strings.ReplaceAll(line, mark, "")
	if marked && !opening.MatchString(own) && !rule.MatchString(line) {
		return guard(line)
	}
	return line
}

// Line returns a string of others as one line.
func Line(text string) Text { return Text(guard(OneLine(text))) }

// Lines joins texts, each of which begins on a new line, and omits those that are empty. The documents of all texts follow the
// lines.
func Lines(texts ...Text) Text {
	var lines []string
	documents := ""
	for _, t := range texts {
		own, docs := t.split()
		if own = Text(strings.Trim(string(own), "\n")); own != "" {
			lines = append(lines, string(own))
		}
		documents += string(docs)
	}
	return assemble(strings.Join(lines, "\n"), documents)
}

func assemble(lines, documents string) Text {
	if documents != "" && lines != "" && !strings.HasSuffix(lines, "\n") {
		lines += "\n"
	}
	return Text(lines + documents)
}

// Documents returns objects as YAML documents.
func Documents[T any](objs ...T) (Text, error) {
	var out strings.Builder
	for _, obj := range objs {
		text, err := YAML(obj)
		if err != nil {
			return "", err
		}
		out.WriteString(separator + string(text))
	}
	return Text(out.String()), nil
}

// split returns the lines and the documents.
func (t Text) split() (lines, documents Text) {
	if strings.HasPrefix(string(t), separator) {
		return "", t
	}
	if i := strings.Index(string(t), "\n"+separator); i >= 0 {
		return t[:i+1], t[i+1:]
	}
	return t, ""
}

// Prose returns the lines without the documents.
func (t Text) Prose() Text {
	lines, _ := t.split()
	return Text(strings.TrimSuffix(string(lines), "\n"))
}

// Documents returns the documents without the lines.
func (t Text) Documents() Text {
	_, documents := t.split()
	return documents
}

// WithComment returns a text with documents and, after them, another text in a comment.
func (t Text) WithComment(comment Text) Text {
	for line := range strings.Lines(string(comment)) {
		t += "# " + Text(line)
	}
	return t
}

// Split returns the lines as a list. It omits the documents.
func (t Text) Split() []Text {
	var out []Text
	if t = t.Prose(); t == "" {
		return nil
	}
	for _, line := range strings.Split(string(t), "\n") {
		out = append(out, Text(line))
	}
	return out
}

// Limit returns the text if it has at most limit bytes. Otherwise, it omits the documents and, if necessary, lines.
func (t Text) Limit(limit int) Text {
	if len(t) <= limit {
		return t
	}
	return Text(Cut(string(t.Prose()), limit))
}

// Cut truncates a string that is longer than limit bytes, if possible at a line or word boundary, and marks it as
// truncated.
func Cut(text string, limit int) string {
	const more = " … (truncated)"
	if len(text) <= limit {
		return text
	}
	head := strings.ToValidUTF8(text[:limit-len(more)], "")
	if i := strings.LastIndexAny(head, "\n "); i > len(head)/2 {
		head = head[:i]
	}
	return head + more
}

// Err returns an error whose text Of returns unchanged.
func (t Text) Err() error { return &textError{t} }

type textError struct{ text Text }

func (e *textError) Error() string { return string(e.text) }

func (e *textError) Text() Text { return e.text }

// texter is an error with a Text of its own.
type texter interface{ Text() Text }

// Of returns the text of an error. Its lines are those of the errors that errors.Join returns, and of errors with a method Text.
func Of(err error) Text {
	if err == nil {
		return ""
	}
	if own, ok := err.(texter); ok {
		return own.Text()
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(list.Unwrap()...).Error() {
		var texts []Text
		for _, e := range list.Unwrap() {
			texts = append(texts, Of(e))
		}
		return Lines(texts...)
	}
	inner := errors.Unwrap(err)
	if inner == nil || inner.Error() == "" {
		return Line(err.Error())
	}
	before, after, ok := strings.Cut(err.Error(), inner.Error())
	if !ok {
		return Line(err.Error())
	}
	return Sprintf("%s%s%s", before, Of(inner), after)
}
