package grpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Unreachable is the reader of the content of a registry that has no address now. Its errors are catalog.ErrNoContent, so that
// callers do not retry: the Store notifies its watchers when the registry has an address.
type Unreachable struct{}

var (
	_ catalog.ContentReader = Unreachable{}
	_ catalog.DisplayReader = Unreachable{}
)

// Content implements catalog.ContentReader.
func (Unreachable) Content(_ context.Context, pkg, _, bundle string) (*catalog.Content, error) {
	return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, noAddress{})
}

// PackageDisplay implements catalog.DisplayReader.
func (Unreachable) PackageDisplay(context.Context, string) ([]byte, error) { return nil, noAddress{} }

// BundleDisplay implements catalog.DisplayReader.
func (Unreachable) BundleDisplay(context.Context, string, string, string) ([]byte, error) {
	return nil, noAddress{}
}

type noAddress struct{}

// Error implements error.
func (noAddress) Error() string { return "the registry has no address at the moment" }

// Is implements errors.Is.
func (noAddress) Is(target error) bool { return errors.Is(target, catalog.ErrNoContent) }
