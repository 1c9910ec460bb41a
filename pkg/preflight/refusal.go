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

// MaxMessage is the maximum length, in bytes, of a message from the API server in a report.
const MaxMessage = 1024

// AddDryRun adds the API server's response to the dry run of an object to the report: a refusal, or an error after
// which the result is unknown. final is true if the object will never be accepted. Any other error is unrelated to the
// plan; AddDryRun returns it and the caller should retry.
func (r *Report) AddDryRun(object string, answer error) (final bool, err error) {
	switch {
	case answer == nil:
	case apply.IsCollision(answer):
		r.refuse(Refusal{Object: object, Message: serverMessage(answer), ByAPIServer: apply.IsFieldConflict(answer)})
	case IsPolicyNotReady(answer):
		return false, answer
	case isUnreadable(answer):
		final = true
		r.refuse(Refusal{Object: object, Message: serverMessage(answer), Final: true, ByAPIServer: true})
	case isUndecided(answer):
		r.Unknown = append(r.Unknown, Finding{Cause: "dry run of " + object, Source: SourceDryRun, Why: serverMessage(answer)})
	case isRefusal(answer):
		final = isMalformed(answer)
		r.refuse(Refusal{Object: object, Message: serverMessage(answer), Final: final, ByAPIServer: true})
	default:
		return false, answer
	}
	return final, nil
}

// serverMessage returns the API server's message without the texts of wrapping errors, truncated and safe to display.
func serverMessage(err error) string {
	text := err.Error()
	var st apierrors.APIStatus
	if errors.As(err, &st) && st.Status().Message != "" {
		text = st.Status().Message
	}
	if len(text) > MaxMessage {
		text = strings.ToValidUTF8(text[:MaxMessage], "") + "…"
	}
	if apierrors.IsForbidden(err) && strings.Contains(text, ownersRefused) {
		text += " (the admission plugin OwnerReferencesPermissionEnforcement requires permission to delete an object whose owner references change)"
	}
	return status.Text(text)
}

// ownersRefused is part of the message with which the admission plugin OwnerReferencesPermissionEnforcement refuses a request.
const ownersRefused = "cannot set an ownerRef on a resource you can't delete"

// IsPolicyNotReady reports whether an admission policy could not decide because the API server has not yet observed the policy's
// parameter, an OperatorGroup that was just created (docs/adr/0020). The API server responds with the code for invalid objects,
// although a retry soon succeeds.
// A mutating policy responds with 503 while the API server does not know the schema of a kind whose definition was just created.
func IsPolicyNotReady(err error) bool {
	if apierrors.IsServiceUnavailable(err) {
		return strings.Contains(err.Error(), "delay between when CustomResourceDefinitions are created and when they are available")
	}
	return isRefusal(err) && (strings.Contains(err.Error(), "no params found for policy binding") ||
		strings.Contains(err.Error(), "failed to find resource referenced by paramKind") ||
		strings.Contains(err.Error(), "not yet synced to use for admission"))
}

// isUndecided reports whether the API server, or a webhook that it calls, is unavailable or cannot decide on a dry run.
// The API server uses the reason BadRequest for a webhook without support for dry runs.
func isUndecided(err error) bool {
	var unreachable net.Error // a timeout, including that of the context, or no connection
	code := codeOf(err)
	return code == 0 && errors.As(err, &unreachable) && !errors.Is(err, context.Canceled) || code >= 500 || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonBadRequest && !isByWebhook(err)
}

// IsUndecided reports whether a response to a dry run says nothing about the write itself, because the API server, or a webhook that it
// calls, is unavailable or cannot decide on a dry run. Only another attempt can show the result.
func IsUndecided(err error) bool { return err != nil && !isUnreadable(err) && isUndecided(err) }

// isRefusal reports whether the API server refuses the object or the permission to write it, as opposed to a request
// with an invalid token or an outdated resource version.
func isRefusal(err error) bool {
	code := codeOf(err)
	return code >= 400 && code < 500 && !apierrors.IsUnauthorized(err) && !apierrors.IsConflict(err)
}

// IsAboutObject reports whether the answer to a write is about the object: the API server, a policy or a webhook does not accept it, or it
// has changed or does not exist. All other errors may not occur in another attempt or by another user.
func IsAboutObject(err error) bool {
	code := codeOf(err)
	return code >= 400 && code < 500 && !isUndecided(err) && !apierrors.IsUnauthorized(err) && !lacksPermission(err)
}

// isByWebhook reports whether a webhook refuses an object. A webhook can use any code, reason and causes, including those of
// errors in the object; the API server only adds this prefix to its message.
func isByWebhook(err error) bool {
	var st apierrors.APIStatus
	if !errors.As(err, &st) {
		return false
	}
	name, isWebhook := strings.CutPrefix(st.Status().Message, `admission webhook "`)
	_, answer, _ := strings.Cut(name, `" `)
	return isWebhook && strings.HasPrefix(answer, "denied the request")
}

// isMalformed reports whether the API server refuses an object because it violates the schema. A rejection by a policy
// has the same code but does not name fields, and a webhook may accept the object later.
func isMalformed(err error) bool {
	var st apierrors.APIStatus
	if !apierrors.IsInvalid(err) || isByWebhook(err) || !errors.As(err, &st) || st.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(st.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type != "" && c.Field != ""
	})
}

// isUnreadable reports whether the API server cannot decode the object as its kind.
func isUnreadable(err error) bool {
	return apply.IsNotTyped(err) || apierrors.IsBadRequest(err) && !isByWebhook(err) && strings.Contains(err.Error(), " cannot be handled as a ")
}

// IsPermanent reports whether the API server's response to a write (not a dry run) means that it will never accept the
// same object, because it cannot decode the object or the object violates the schema. A policy or webhook that refuses the
// object can be changed (see AtAdmission), even if its response has the same code.
func IsPermanent(err error) bool {
	return isUnreadable(err) || isMalformed(err) && !IsPolicyNotReady(err)
}

// codeOf returns the HTTP status code of the API server's response, or 0 if there is no response.
func codeOf(err error) int32 {
	var st apierrors.APIStatus
	if errors.As(err, &st) {
		return st.Status().Code
	}
	return 0
}
