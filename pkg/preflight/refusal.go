package preflight

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// MaxMessage bounds, in bytes, what is repeated of one of the API server's messages.
const MaxMessage = 1024

// Judge adds the API server's answer to the write of an object, sent as a dry run: a refusal, final or not,
// or what it could not decide. The error is returned where it is neither: it says nothing of the plan, and
// the run that it belongs to fails.
func (r *Report) Judge(object string, answer error) (final bool, err error) {
	switch {
	case answer == nil:
	case apply.IsCollision(answer):
		r.refuse(Refusal{Object: object, Message: message(answer)})
	case Unready(answer):
		return false, answer
	case isUnreadable(answer):
		final = true
		r.refuse(Refusal{Object: object, Message: message(answer), Final: true})
	case isUndecided(answer):
		r.Unknown = append(r.Unknown, Finding{Cause: "dry run of " + object, Source: SourceDryRun, Why: message(answer)})
	case isRefusal(answer):
		final = isMalformed(answer)
		r.refuse(Refusal{Object: object, Message: message(answer), Final: final})
	default:
		return false, answer
	}
	return final, nil
}

// message is the API server's own, without what was put around it here, and safe to show.
func message(err error) string {
	text := err.Error()
	var st apierrors.APIStatus
	if errors.As(err, &st) && st.Status().Message != "" {
		text = st.Status().Message
	}
	if len(text) > MaxMessage {
		text = strings.ToValidUTF8(text[:MaxMessage], "") + "…"
	}
	return status.Text(text)
}

// Unready says that an admission policy could not decide since the API server has not seen its parameter yet: an
// OperatorGroup that was just made (docs/adr/0020). The API server says so with the code of an object that is
// malformed; moments later it knows.
func Unready(err error) bool {
	return isRefusal(err) && (strings.Contains(err.Error(), "no params found for policy binding") ||
		strings.Contains(err.Error(), "failed to find resource referenced by paramKind") ||
		strings.Contains(err.Error(), "not yet synced to use for admission"))
}

// isUndecided: the API server, or a webhook that it asks, is not well, or cannot say without really doing
// it. The reason BadRequest is the API server's own word for a webhook that takes no dry runs; one that
// refuses has a reason of its own, or none.
func isUndecided(err error) bool {
	var unreachable net.Error // a timeout, of the context too, or no connection
	code := codeOf(err)
	return code == 0 && errors.As(err, &unreachable) && !errors.Is(err, context.Canceled) || code >= 500 || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonBadRequest
}

// isRefusal leaves out what concerns the request alone: a token, or an object that has changed since it
// was read.
func isRefusal(err error) bool {
	code := codeOf(err)
	return code >= 400 && code < 500 && !apierrors.IsUnauthorized(err) && !apierrors.IsConflict(err)
}

// isMalformed tells a violation of the schema, of which the API server names the fields, from a policy
// that answers with the same code.
func isMalformed(err error) bool {
	var st apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &st) || st.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(st.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type != "" && c.Field != ""
	})
}

// isUnreadable says that the API server cannot read what it was sent as what that says to be.
func isUnreadable(err error) bool {
	return apply.IsNotTyped(err) || apierrors.IsBadRequest(err) && strings.Contains(err.Error(), " cannot be handled as a ")
}

// Hopeless reports whether the API server's answer to a write, not a dry run, says that the same object is never accepted.
func Hopeless(err error) bool {
	return isUnreadable(err) || apierrors.IsInvalid(err) && !Unready(err)
}

// codeOf is the HTTP status of the API server's answer; 0 where there was none.
func codeOf(err error) int32 {
	var st apierrors.APIStatus
	if errors.As(err, &st) {
		return st.Status().Code
	}
	return 0
}
