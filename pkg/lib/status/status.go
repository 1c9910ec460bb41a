package status

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxMessage is the greatest length in bytes of a message in a status or an event.
const MaxMessage = 32 * 1024

// Patch sends the difference between before and after to the status subresource. It does nothing
// where the two are equal. A concurrent change is a conflict error, for the caller to retry.
func Patch[T client.Object](ctx context.Context, c client.Client, before, after T) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("patch status of %s: %w", client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// Text is Clean, and cuts what exceeds MaxMessage at a line or word and marks it as cut.
func Text(message string) string {
	return cut(Clean(message), MaxMessage)
}

// Clean makes a text safe to show: invalid UTF-8, control characters (new lines and tabs aside), and characters that change
// the direction of a text, break lines or are invisible are replaced.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r != utf8.RuneError && !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

func cut(s string, limit int) string {
	const mark = " … (cut)"
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
