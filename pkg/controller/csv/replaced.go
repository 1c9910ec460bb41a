package csv

import (
	"context"
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// replaced leaves the field to the CSV that replaces this one, and goes once one that came after it has
// succeeded, the oldest first: a version is found through the one that replaces it. It says so before, and
// goes when that can be read.
func replaced(f Facts) Transition {
	switch {
	case !f.Replaced:
		return to(phaseReplacing, reasonBeingReplaced, beingReplaced(f))
	case f.CSV.Status.Phase != phaseDeleting:
		return to(phaseDeleting, reasonReplaced, messageReplaced)
	}
	t := stay(f)
	t.Remove = f.Older == ""
	return t
}

// beingReplaced says so, and of one that had failed that its OperatorGroup lets it (contract 1.7).
func beingReplaced(f Facts) string {
	forward := fmt.Sprintf(messageFailForward, f.ReplacedBy)
	if f.Forward && f.CSV.Status.Phase == phaseFailed || f.CSV.Status.Message == forward {
		return forward
	}
	return fmt.Sprintf(messageBeingReplaced, f.ReplacedBy)
}

// removeReplaced deletes, as the account, a CSV that was replaced; finalize and garbage collection follow.
// Where nobody may, the message says how a person does it.
func (r *Reconciler) removeReplaced(ctx context.Context, s *scope) (Transition, error) {
	t := to(phaseDeleting, reasonReplaced, messageReplaced)
	account, err := r.cleaner(ctx, s)
	if err == nil {
		err = r.remove(ctx, s, account, s.csv)
	}
	switch {
	case err == nil:
		s.gone = true
	case mayNot(err) || scoped.ReasonOf(err) != "":
		t.Message += " " + oneLine(err) + ": " + r.command(s.csv)
	default:
		return t, err
	}
	return t, nil
}
