package cli

import (
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// Writer replaces characters that a terminal would interpret as commands: control characters, and characters that change the
// direction of text. All output of a command goes through a Writer, because names, statuses and messages in a cluster are
// untrusted.
type Writer struct {
	raw io.Writer

	mu sync.Mutex
	// partial is the beginning of a character that the next Write completes.
	partial []byte
}

// NewWriter returns a Writer that writes to raw.
func NewWriter(raw io.Writer) *Writer { return &Writer{raw: raw} }

// Raw returns the underlying writer, for a command's own control sequences.
func (w *Writer) Raw() io.Writer { return w.raw }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := slices.Concat(w.partial, p)
	end := len(text) - unfinished(text)
	w.partial = slices.Clone(text[end:])
	if _, err := io.WriteString(w.raw, message.Printable(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unfinished returns the number of bytes of an incomplete character at the end of the text.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
