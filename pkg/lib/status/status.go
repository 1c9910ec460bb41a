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

// Text makes a message safe to show: invalid UTF-8 and control characters (new lines and tabs
// aside) are replaced, and what exceeds MaxMessage is cut at a line or word and marked as cut.
func Text(message string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || (r != utf8.RuneError && !unicode.IsControl(r)) {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(message, "\uFFFD"))
	return cut(clean, MaxMessage)
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
