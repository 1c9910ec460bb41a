package status

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxMessage is the maximum length, in bytes, of a message in a status.
	MaxMessage = 32 * 1024
	// maxNote is the maximum length, in bytes, of the note of an event. The API server accepts 1024 bytes.
	maxNote = 1000
)

// Patch sends the difference between before and after to the status subresource. It does nothing if they are equal. A concurrent
// change causes a conflict error, which the caller should retry.
func Patch[T client.Object](ctx context.Context, c client.Client, before, after T) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("patch status of %s %s: %w", reflect.Indirect(reflect.ValueOf(after)).Type().Name(), client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// Text makes a message safe to display, as Clean does, and truncates it to MaxMessage at a line or word boundary.
func Text(message string) string {
	return Cut(Clean(message), MaxMessage)
}

// Note truncates the note of an event to the length that the API server accepts.
func Note(text string) string { return Cut(text, maxNote) }

// OneLine replaces each sequence of white space, including line breaks, with one space, so that a quoted text cannot
// look like another line of a message. It also makes the text safe to display, as Clean does.
func OneLine(text string) string { return Clean(strings.Join(strings.Fields(text), " ")) }

// Clean makes a text safe to display: it replaces invalid UTF-8, control characters except newlines and tabs, and characters that
// are invisible, break lines or change the text direction.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r != utf8.RuneError && !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// Cut truncates a text that is longer than limit bytes, if possible at a line or word boundary, and marks it as
// truncated.
func Cut(s string, limit int) string {
	const mark = " … (truncated)"
	if len(s) <= limit {
		return s
	}
	head := s[:limit-len(mark)]
	for !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	if i := strings.LastIndexAny(head, "\n "); i > len(head)/2 {
		head = head[:i]
	}
	return head + mark
}

// Lines joins whole lines with "; ", in the given order. It stops before the text exceeds about limit bytes, and then
// appends the number of omitted lines.
func Lines(lines []string, limit int) string {
	var out strings.Builder
	for i, line := range lines {
		if out.Len()+len(line) > limit {
			return left(out.String(), len(lines)-i)
		}
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(line)
	}
	return out.String()
}

func left(shown string, n int) string {
	if shown == "" {
		return fmt.Sprintf("entries too long to show here: %d", n)
	}
	return fmt.Sprintf("%s; and %d more", shown, n)
}
