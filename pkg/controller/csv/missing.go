package csv

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// MissingPermissionsError lists all permissions that the account is missing for the intended writes. It is derived from
// the cache before any write is tried, so that Remit sends no writes that would be refused. The API server still
// authorizes each write.
type MissingPermissionsError struct {
	Account scoped.Account
	// Missing contains lines in the form "in namespace <ns> <rule>" or "cluster-wide <rule>".
	Missing []string
	// Refused lists needs that cannot be checked, regardless of the account's permissions, for example because rules
	// exceed the limits.
	Refused []string
}

func (e *MissingPermissionsError) Error() string {
	if len(e.Refused) > 0 {
		return "refused: " + lines(e.Refused)
	}
	return fmt.Sprintf("ServiceAccount %s is missing permissions: %s", e.Account.Key(), lines(e.Missing))
}

// maxLines is the maximum size in bytes of a list of permissions in a message, so that the message also fits into an
// event. The requirement status contains the complete list.
const maxLines = 700

// noteExceeds is the prefix of notes about an installed operator whose permissions exceed those of its account.
const noteExceeds = names.ConditionExceedsAccount + ": "

// lines joins as many entries as fit into a message.
func lines(list []string) string { return status.Lines(list, maxLines) }

// summary returns the lines of an error that fit into a message.
func summary(err error) string {
	parts := strings.Split(err.Error(), "\n")
	return status.Lines(parts, max(maxLines, len(parts[0])))
}

// Purposes for which the account's permissions are checked. The API server's responses are cached separately for each
// purpose.
const (
	forPreparing = "prepare"
	forTargets   = "prepare targets"
	forInstall   = "install"
	forRemoval   = "remove"
	forHooks     = "hooks"
	forCondition = "condition"
	forShrinking = "shrink"
	forIdentity  = "run as"
	forRotation  = "rotate " // followed by the name of a Deployment
)

// missingPermissions returns a *MissingPermissionsError if the account is not allowed to use the verbs on the objects
// or, if no verbs are given, to apply the objects. A permission that RBAC does not grant is missing only if the API
// server confirms this, because another authorizer may allow it. Each access review is sent only once while the set of
// missing permissions is unchanged.
func (r *Reconciler) missingPermissions(ctx context.Context, s *scope, purpose string, objs []*unstructured.Unstructured, verbs ...string) error {
	if len(verbs) == 0 {
		verbs = apply.Verbs()
	}
	return r.missingForNeeds(ctx, s, purpose, needsOf(objs, verbs...))
}

func needsOf(objs []*unstructured.Unstructured, verbs ...string) []preflight.Need {
	needs := make([]preflight.Need, 0, len(objs))
	for _, obj := range objs {
		needs = append(needs, hooks.Request(obj, "write "+apply.Describe(obj), verbs...))
	}
	return needs
}

// confirm compares needs with the account's permissions, and asks the API server about those that RBAC does not grant.
func (r *Reconciler) confirm(ctx context.Context, s *scope, purpose string, needs []preflight.Need) preflight.Report {
	subject := rbac.ServiceAccount(s.account.Namespace, s.account.Name)
	report := preflight.Examine(s.account.Identity(), needs, func(namespace string) rbac.Permissions { return r.RBAC.LowerBound(subject, namespace) })
	return r.confirmer.Confirm(ctx, client.ObjectKeyFromObject(s.csv).String()+" "+purpose, report)
}

// missingForNeeds returns a *MissingPermissionsError if the account does not have the permissions for the needs. It
// checks them as missingPermissions does.
func (r *Reconciler) missingForNeeds(ctx context.Context, s *scope, purpose string, needs []preflight.Need) error {
	report := r.confirm(ctx, s, purpose, needs)
	if purpose == forHooks && len(report.Unknown) > 0 {
		return preflight.Undecided(report)
	}
	if report.Clear() {
		return nil
	}
	var refused []string
	for _, r := range report.Refused {
		refused = append(refused, r.Message)
	}
	var missing []string
	for _, scope := range report.Scopes() {
		if len(missing) > maxMissing {
			break
		}
		missing = append(missing, rbac.Lines(scope.Namespace, scope.Rules, maxLines/2)...)
	}
	missing = append(missing, report.HiddenCauses()...)
	slices.Sort(missing)
	return &MissingPermissionsError{Account: s.account, Missing: missing, Refused: refused}
}

// forget drops all cached data of a deleted CSV.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.metrics.expires.Delete(key)
	r.confirmer.ForgetAll(key.String() + " ")
	r.memory.Forget(key)
	r.edits.keep(key, nil)
	r.drift.Delete(key)
	r.refusals.Delete(key)
	r.rivals.set(key, "")
	for _, p := range placesOf(key) {
		r.stopExcess(p)
	}
	r.secrets.drop(key)
	r.turns.Delete(key)
	r.replaced.ForgetFunc(func(k client.ObjectKey) bool { return k == key })
}
