package run

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// progress prints one line for each step. On a terminal, it shows the running step and replaces its line with the
// result; otherwise, it only prints the result.
type progress struct {
	out io.Writer
	// terminal receives control sequences; it is nil if the output is not a terminal.
	terminal io.Writer
}

func newProgress(out io.Writer) *progress {
	raw := out
	if w, ok := out.(*cli.Writer); ok {
		raw = w.Raw()
	}
	p := &progress{out: out}
	if file, ok := raw.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.terminal = file
	}
	return p
}

// step runs one step and returns its error.
func (p *progress) step(what string, do func() error) error {
	if p.terminal != nil {
		message.Fprintf(p.out, "  … %s", what)
	}
	start := time.Now()
	err := do()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	if p.terminal != nil {
		_, _ = io.WriteString(p.terminal, "\r\x1b[K") // an error concerns only the display
	}
	message.Fprintf(p.out, "  %s %s (%s)\n", mark, what, took(start))
	return err
}

func took(start time.Time) string {
	return time.Since(start).Round(10 * time.Millisecond).String()
}

func (p *progress) say(f message.Format, args ...any) {
	message.Fprintln(p.out, message.Sprintf(f, args...))
}

// quote prints text from another source, indented and marked with a vertical line.
func (p *progress) quote(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		message.Fprintf(p.out, "    │ %s\n", line)
	}
}
