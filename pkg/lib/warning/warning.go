// Package warning passes the API server's warnings about a request to the code that sent the request.
package warning

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

// limit is the maximum number of warnings in a List. An object's author can cause any number of warnings.
const limit = 10

// List contains the warnings about the requests of a context. The zero value is empty.
type List struct {
	mu    sync.Mutex
	texts []string
}

// All returns the warnings, each once, in the order in which they were received.
func (l *List) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.texts)
}

func (l *List) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text != "" && len(l.texts) < limit && !slices.Contains(l.texts, text) {
		l.texts = append(l.texts, text)
	}
}

type listKey struct{}

// Into returns a context whose requests add their warnings to the list.
func Into(ctx context.Context, l *List) context.Context { return context.WithValue(ctx, listKey{}, l) }

// Handler adds warnings to the List of the request's context. It drops the warnings if the context has no List.
type Handler struct{}

var _ rest.WarningHandlerWithContext = Handler{}

// warningCode is the code of warnings that a server adds to its response (RFC 7234, 5.5.7; KEP-1693).
const warningCode = 299

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (Handler) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if l, ok := ctx.Value(listKey{}).(*List); ok && code == warningCode {
		l.add(text)
	}
}
