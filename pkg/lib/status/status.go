package status

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/message"
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
	patch, err := difference(before, after)
	if err == nil {
		err = c.Status().Patch(ctx, after, patch)
	}
	if err != nil {
		return fmt.Errorf("patch status of %s %s: %w", reflect.Indirect(reflect.ValueOf(after)).Type().Name(), client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// difference returns the patch that sets the status. It is computed from maps of both objects, which can take ten times their memory, so
// that it leaves out the specs, which users write.
func difference(before, after client.Object) (client.Patch, error) {
	data, err := client.MergeFromWithOptions(withoutSpec(before), client.MergeFromWithOptimisticLock{}).Data(withoutSpec(after))
	return client.RawPatch(types.MergePatchType, data), err
}

// withoutSpec returns a shallow copy of an object without its spec.
func withoutSpec(obj client.Object) client.Object {
	v := reflect.ValueOf(obj)
	out := reflect.New(v.Type().Elem())
	out.Elem().Set(v.Elem())
	if spec := out.Elem().FieldByName("Spec"); spec.IsValid() {
		spec.SetZero()
	}
	return out.Interface().(client.Object) //nolint:forcetypeassert // the type is that of obj
}

// Text returns a message for a status: a message.Text as it is, and any other string as one line. It is truncated to MaxMessage.
func Text[S string | message.Text](text S) string { return string(textOf(text).Limit(MaxMessage)) }

// Note returns the note of an event, without documents. It is truncated to the length that the API server accepts.
func Note[S string | message.Text](text S) string { return string(textOf(text).Prose().Limit(maxNote)) }

func textOf[S string | message.Text](text S) message.Text {
	if own, ok := any(text).(message.Text); ok {
		return own
	}
	return message.Line(string(text))
}

// OneLine replaces each sequence of white space, including line breaks, with one space, so that a quoted text cannot
// look like another line of a message. It also makes the text safe to display, as Clean does.
func OneLine(text string) string { return Clean(strings.Join(strings.Fields(text), " ")) }

// Clean makes a text safe to display: it returns one line without invalid UTF-8 and control characters, and without characters
// that are invisible or change the text direction.
func Clean(text string) string { return message.OneLine(text) }

// Cut truncates a text that is longer than limit bytes, if possible at a line or word boundary, and marks it as
// truncated.
func Cut(s string, limit int) string { return message.Cut(s, limit) }

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
