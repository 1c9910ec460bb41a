package warning

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWarningsReachTheSenderOfARequest(t *testing.T) {
	var one, two List
	var h Handler
	warn := func(ctx context.Context, code int, text string) {
		h.HandleWarningHeaderWithContext(ctx, code, "", text)
	}
	first, second := Into(t.Context(), &one), Into(t.Context(), &two)
	warn(first, warningCode, "a")
	warn(second, warningCode, "b")
	warn(first, warningCode, "a")
	warn(first, warningCode, "")
	warn(first, 199, "another code")
	warn(t.Context(), warningCode, "a request without a List")
	require.Equal(t, []string{"a"}, one.All())
	require.Equal(t, []string{"b"}, two.All())
	for i := range 2 * limit {
		warn(second, warningCode, strconv.Itoa(i))
	}
	require.Len(t, two.All(), limit)
}
