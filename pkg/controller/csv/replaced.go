package csv

import (
	"context"
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// replaced stops managing the operator in favor of the replacing CSV, and removes this CSV once a later version has
// succeeded, oldest first: a version is found through the one that replaces it. The phase is written before the CSV
// is deleted.
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

// beingReplaced returns the message, which for a failed CSV says that its OperatorGroup allows it (contract 1.7).
func beingReplaced(f Facts) string {
	forward := fmt.Sprintf(messageFailForward, f.ReplacedBy)
	if f.Forward && f.CSV.Status.Phase == phaseFailed || f.CSV.Status.Message == forward {
		return forward
	}
	return fmt.Sprintf(messageBeingReplaced, f.ReplacedBy)
}

// removeReplaced deletes, as the account, a CSV that was replaced; finalize and garbage collection follow. If this is
// not permitted, the message has the command for users.
func (r *Reconciler) removeReplaced(ctx context.Context, s *scope) (Transition, error) {
	t := to(phaseDeleting, reasonReplaced, messageReplaced)
	account, err := r.cleaner(ctx, s)
	if err == nil {
		err = r.remove(ctx, s, account, s.csv)
	}
	switch {
	case err == nil:
		s.gone = true
	case isDenied(err) || scoped.ReasonOf(err) != "":
		t.Message += " " + oneLine(err) + ": " + r.command(s.csv)
	default:
		return t, err
	}
	return t, nil
}
