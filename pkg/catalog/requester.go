package catalog

import "context"

type requester struct{}

// RequestedBy returns a context for reading contents on behalf of a namespace. Where reading is shared between the users of
// a catalog, the namespaces that request it take turns.
func RequestedBy(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, requester{}, namespace)
}

// Requester returns the namespace on whose behalf contents are read, or "" if it is not known.
func Requester(ctx context.Context) string {
	namespace, _ := ctx.Value(requester{}).(string)
	return namespace
}
