package csv

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
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

// MissingPermissionsError lists all permissions that the account is missing for the intended writes, before any is tried. It is
// derived from the cache, so that writes that are known to fail cost no request; its absence permits nothing.
type MissingPermissionsError struct {
	Account scoped.Account
	// Missing are lines of "in namespace <ns> <rule>".
	Missing []string
	// Refused lists what cannot be checked, regardless of the account's permissions: rules beyond the limits, for
	// instance.
	Refused []string
}

func (e *MissingPermissionsError) Error() string {
	if len(e.Refused) > 0 {
		return "refused: " + lines(e.Refused)
	}
	return fmt.Sprintf("ServiceAccount %s is missing permissions: %s", e.Account.Key(), lines(e.Missing))
}

// maxLines bounds, in bytes, the list in a message, so that the message also fits into an event. The requirement
// status has the complete list.
const maxLines = 700

// noteExceeds is the prefix of notes on an installed operator that exceeds its account.
const noteExceeds = names.ConditionExceedsAccount + ": "

// lines joins as many entries as fit into a message.
func lines(list []string) string { return status.Lines(list, maxLines) }

// summary formats an error for a message, with as many of its lines as fit.
func summary(err error) string {
	parts := strings.Split(err.Error(), "\n")
	return status.Lines(parts, max(maxLines, len(parts[0])))
}

// Purposes for which the account may be missing permissions; each has its own questions to the API server.
const (
	forPreparing = "prepare"
	forInstall   = "install"
	forRemoval   = "remove"
	forHooks     = "hooks"
	forRotation  = "rotate " // followed by a Deployment
)

// missingPermissions checks the account's permissions for writing the objects: server-side applies, or the given verbs. A
// permission that RBAC does not grant is missing only if the API server confirms it, because another authorizer may
// allow it. Each question is asked only once.
func (r *Reconciler) missingPermissions(ctx context.Context, s *scope, purpose string, objs []*unstructured.Unstructured, verbs ...string) error {
	if len(verbs) == 0 {
		verbs = apply.Verbs()
	}
	needs := make([]preflight.Need, 0, len(objs))
	for _, obj := range objs {
		needs = append(needs, hooks.Request(obj, "write "+apply.Describe(obj), verbs...))
	}
	return r.missingForNeeds(ctx, s, purpose, needs)
}

// missingForNeeds is missingPermissions for needs.
func (r *Reconciler) missingForNeeds(ctx context.Context, s *scope, purpose string, needs []preflight.Need) error {
	subject := rbac.ServiceAccount(s.account.Namespace, s.account.Name)
	report := preflight.Examine(s.account.Key(), needs, func(namespace string) rbac.Permissions { return r.RBAC.LowerBound(subject, namespace) })
	report = r.confirmer.Confirm(ctx, client.ObjectKeyFromObject(s.csv).String()+" "+purpose, report)
	if purpose == forHooks && len(report.Unknown) > 0 {
		return undecided(report)
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
		for _, rule := range scope.Rules {
			missing = append(missing, describeMissing(scope.Namespace, rule)...)
		}
	}
	missing = append(missing, report.HiddenCauses()...)
	slices.Sort(missing)
	return &MissingPermissionsError{Account: s.account, Missing: missing, Refused: refused}
}

// undecided returns an error for webhooks if the API server cannot determine whether the account may read and write
// what they intercept. Other writes are tried in this case, and the API server decides; but only this check bounds
// what a webhook receives (docs/adr/0013).
func undecided(report preflight.Report) error {
	f := report.Unknown[0]
	return fmt.Errorf("cannot determine whether ServiceAccount %s may %s: %s", report.Account, f.Cause, f.Why)
}

// forget drops what was kept for a deleted CSV.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.metrics.expires.Delete(key)
	r.confirmer.ForgetAll(key.String() + " ")
	r.memory.Forget(key)
	r.edits.keep(key, nil)
	r.refusals.Delete(key)
}

// describeMissing describes a missing rule and its scope. A rule with many resources is split into several equivalent ones.
func describeMissing(namespace string, rule rbacv1.PolicyRule) []string {
	where := "in the whole cluster "
	if namespace != rbac.ClusterScope {
		where = "in namespace " + namespace + " "
	}
	var out []string
	for _, piece := range rbac.Split([]rbacv1.PolicyRule{rule}, maxLines/2) {
		out = append(out, where+rbac.Line(piece))
	}
	return out
}
