package resolver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-olm/remit/pkg/lib/turns"
)

const (
	// ReadTime bounds the time that one reconcile spends reading and parsing the contents of bundles. A registry can take
	// as long for each bundle as a call may take, and the worker is not available to other namespaces in the meantime.
	ReadTime = 30 * time.Second
	// ReadWait bounds the waits for turns of other namespaces, which ReadTime does not include.
	ReadWait = 30 * time.Second
)

// errReadTime is the cause of a ReadError after ReadTime. The text is the same for bundles that were not read at all, so that
// statuses do not change with each retry.
var errReadTime = fmt.Errorf("reading bundles from catalogs takes longer than %s in total; this will be retried", ReadTime)

// Reading counts the time that one reconcile spends reading and parsing the contents of bundles. It is not safe for concurrent use.
type Reading struct{ spent, waited time.Duration }

// Begun reports whether any time has been spent, and IsOver whether no time is left.
func (r *Reading) Begun() bool { return r != nil && r.spent+r.waited > 0 }

// IsOver reports whether no time is left.
func (r *Reading) IsOver() bool { return r != nil && r.spent >= ReadTime }

// within calls read with a context that ends when no time is left. A nil Reading has no limit.
func (r *Reading) within(ctx context.Context, read func(context.Context) error) error {
	switch {
	case r == nil:
		return read(ctx)
	case r.IsOver():
		return errReadTime
	}
	began := time.Now()
	ctx, waits, cancel := turns.WithTimeout(ctx, ReadTime-r.spent, ReadWait-r.waited, errReadTime)
	defer cancel()
	err := read(ctx)
	waited := min(waits.Total(), ReadWait-r.waited)
	r.waited += waited
	r.spent += time.Since(began) - waited
	if err != nil && errors.Is(context.Cause(ctx), errReadTime) {
		r.spent = ReadTime
		return errReadTime
	}
	return err
}
