package preflight

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// AtAdmission returns an *execute.RefusedError if err shows that the API server refused to write an object for a reason other than
// permissions and schema: a quota, a policy, a webhook, or a namespace that is terminating or does not exist. Otherwise, it returns
// nil. Call it only if no permission for the write is known to be missing: the text of the API server is a second check, which
// also detects permissions that were removed in the meantime.
func AtAdmission(err error) error {
	if err == nil || !isAdmission(err) {
		return nil
	}
	return &execute.RefusedError{Message: serverMessage(err), Err: err}
}

func isAdmission(err error) bool {
	switch {
	case apierrors.IsNotFound(err) && !isByWebhook(err):
		return isNoNamespace(err)
	case !isRefusal(err), isUndecided(err), isMalformed(err), isUnreadable(err), IsPolicyNotReady(err), apply.IsCollision(err), lacksPermission(err):
		return false
	}
	return isByWebhook(err) || slices.Contains([]int32{400, 403, 422}, codeOf(err))
}

// isNoNamespace reports whether the namespace of an object does not exist.
func isNoNamespace(err error) bool {
	var st apierrors.APIStatus
	return errors.As(err, &st) && st.Status().Details != nil && st.Status().Details.Group == "" && st.Status().Details.Kind == "namespaces"
}

// lacksPermission reports whether the API server refused a request because the identity has not enough permissions: the reason of an
// authorizer begins with "User", that of the escalation check with "user", and that of the admission plugin
// OwnerReferencesPermissionEnforcement with ownersRefused. The texts of webhooks and policies, which others write, have a prefix.
func lacksPermission(err error) bool {
	var st apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &st) {
		return false
	}
	if isByWebhook(err) {
		return false
	}
	_, reason, _ := strings.Cut(st.Status().Message, " is forbidden: ")
	return slices.ContainsFunc([]string{"User ", "user ", ownersRefused}, func(prefix string) bool { return strings.HasPrefix(reason, prefix) })
}
