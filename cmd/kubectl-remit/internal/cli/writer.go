package cli

import (
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/remit-olm/remit/pkg/lib/status"
)

// Writer passes text on without what a terminal would take for a command: control characters, and those that change the
// direction of a text. Everything that a command prints goes through one, because names, statuses and messages of a cluster
// are other people's.
type Writer struct {
	raw io.Writer

	mu sync.Mutex
	// begun is the beginning of a character whose end comes with the next Write.
	begun []byte
}

// NewWriter writes to raw.
func NewWriter(raw io.Writer) *Writer { return &Writer{raw: raw} }

// Raw is for what a command itself tells the terminal.
func (w *Writer) Raw() io.Writer { return w.raw }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := slices.Concat(w.begun, p)
	end := len(text) - unfinished(text)
	w.begun = slices.Clone(text[end:])
	if _, err := io.WriteString(w.raw, status.Clean(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unfinished is how many bytes at the end of a text are the beginning of a character.
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
