package preflight

import (
	"errors"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// Source is how a Finding was determined.
type Source string

// Sources of a Finding.
const (
	// SourceRBAC is a local evaluation of the cluster's RBAC objects.
	SourceRBAC Source = "rbac"
	// SourceReview is a SubjectAccessReview, which consults all authorizers of the API server.
	SourceReview Source = "review"
	// SourceDryRun is the API server's response to a dry run of the write.
	SourceDryRun Source = "dryrun"
)

// Finding lists the rules of one need that are missing, unknown or allowed by another authorizer.
type Finding struct {
	Namespace string
	Missing   []rbacv1.PolicyRule
	// Granted, Unenforced, Hidden and Alternatives are copied from the Need.
	Granted      bool
	Unenforced   bool
	Hidden       bool
	Alternatives []rbacv1.PolicyRule
	Cause        string
	Source       Source
	// Why explains why an Unknown finding could not be determined; "" for other findings.
	Why string
}

// Refusal describes an object that cannot be written for a reason other than missing permissions.
type Refusal struct {
	// Object is "<Kind> <namespace>/<name>".
	Object  string `json:"object"`
	Message string `json:"message"`
	// Final is true if the bundle is invalid, so that no change to the cluster can make the object acceptable.
	Final bool `json:"final,omitempty"`
	// Unserved is true if the cluster does not serve the object's kind.
	Unserved bool `json:"unserved,omitempty"`
	// ByAPIServer is true if the API server refuses the object, and false if Remit does not write it.
	ByAPIServer bool `json:"byAPIServer,omitempty"`
}

// Report lists all permissions that an identity, usually an account, is missing for a plan, and all other obstacles. The
// same input always results in the same Report.
type Report struct {
	Identity scoped.Identity
	// Findings are the missing permissions.
	Findings []Finding
	// Allowed are permissions that another authorizer allows although RBAC does not.
	Allowed []Finding
	// Unknown are the permissions for which it could not be determined whether the account has them. They do not block a
	// plan, because the API server decides on each write, except those that only this check enforces (Doubts).
	Unknown []Finding
	// Later are missing permissions that need not be granted until the cluster serves all kinds of the plan.
	Later []Finding
	// Refused are the objects that cannot be written for reasons other than missing permissions.
	Refused []Refusal
	// Notes are further remarks for an administrator.
	Notes []string
	// Changes are the differences between the permissions of the plan's versions and those of the versions that they
	// replace.
	Changes []Change
	// Blind is true if RBAC could not be read completely, or if a ClusterRole of the account has more rules than are kept and a permission
	// seems to be missing. Not all changes to RBAC then wake the plan.
	Blind bool
	// Unasked is true if there were more questions for the API server than MaxReviews.
	Unasked bool
	// TooMuch is set if the account has more permissions than Remit examines. Changes to RBAC still wake the plan.
	TooMuch *rbac.LimitError
	// Begun is true if part of the plan has already been written.
	Begun bool
	// InUse contains warnings about existing roles that have the name of a role in the grant but different rules.
	InUse []message.Text
	// escalations are the permissions that the install grants and with which others can be obtained.
	escalations powerCauses
	// Details is a sentence for summaries that describes where to find the complete report.
	Details message.Text
}

// Examine reports which of the needs the identity's permissions do not cover. permissionsIn returns the permissions in
// a namespace, or cluster-wide for "". If not all permissions could be read, those that seem to be missing are
// Unknown.
func Examine(identity scoped.Identity, needs []Need, permissionsIn func(namespace string) rbac.Permissions) Report {
	report := Report{Identity: identity}
	escalations := powerCauses{}
	scopes := map[string]*effectiveRules{}
	var current *effectiveRules
	for _, n := range byScope(needs) {
		report.Notes = append(report.Notes, n.Notes...)
		if n.Invalid != nil {
			report.refuse(Refusal{Object: n.Object, Message: serverMessage(n.Invalid), Final: true})
			continue
		}
		if rbac.TooLarge(n.Rules) {
			report.refuse(Refusal{Object: n.Object, Message: rbac.ErrTooLarge.Error(), Final: true})
			continue
		}
		if n.Granted && !n.Hidden {
			escalations.add(rbac.Escalations(n.Rules), n.Cause)
		}
		if scopes[n.Namespace] == nil {
			current.finish()
			current = &effectiveRules{Permissions: permissionsIn(n.Namespace)}
			current.set = current.Set()
			scopes[n.Namespace] = current
		}
		report.add(n, current)
	}
	if len(escalations) > 0 {
		report.escalations = escalations
	}
	for _, namespace := range slices.Sorted(maps.Keys(scopes)) {
		report.Notes = append(report.Notes, scopes[namespace].notes()...)
		report.addReadErrors(scopes[namespace].ReadErrors)
		report.Blind = report.Blind || scopes[namespace].incomplete && len(scopes[namespace].NotKept) > 0
	}
	slices.Sort(report.Notes)
	report.Notes = slices.Compact(report.Notes)
	return report
}

// byScope returns the needs in each scope one after the other, in the order in which the scopes are first mentioned, so that the
// identity's permissions are prepared for one scope at a time: in each, that can take 17 MiB (docs/adr/0066).
func byScope(needs []Need) []Need {
	first := map[string]int{}
	for i := range needs {
		if _, ok := first[needs[i].Namespace]; !ok {
			first[needs[i].Namespace] = i
		}
	}
	if len(first) == 1 {
		return needs
	}
	out := slices.Clone(needs)
	slices.SortStableFunc(out, func(a, b Need) int { return first[a.Namespace] - first[b.Namespace] })
	return out
}

func (r *Report) addReadErrors(errs []error) {
	var tooMuch *rbac.LimitError
	switch err := errors.Join(errs...); {
	case errors.As(err, &tooMuch):
		r.TooMuch = tooMuch
	case err != nil:
		r.Blind = true
	}
}

// effectiveRules contains the account's permissions in one scope, together with the set of their rules for lookups.
type effectiveRules struct {
	rbac.Permissions
	set rbac.Set
	// incomplete is true if a permission is missing or unknown in the scope.
	incomplete bool
}

// finish drops what only further needs in the scope would be compared with.
func (h *effectiveRules) finish() {
	if h != nil {
		h.Permissions, h.set = rbac.Permissions{Namespace: h.Namespace, Dangling: h.Dangling, ReadErrors: h.ReadErrors, NotKept: h.NotKept}, rbac.Set{}
	}
}

// notes describes RBAC that could not be read and bindings whose role does not exist, both of which can be the reason
// for missing permissions. It returns nil if no permission is missing or unknown in the scope.
func (h *effectiveRules) notes() []string {
	if !h.incomplete {
		return nil
	}
	var out []string
	for _, err := range h.ReadErrors {
		if inner := errors.Unwrap(err); errors.Is(inner, rbac.ErrUnreadable) {
			err = inner // no kind of RBAC object can be read
		}
		out = append(out, "RBAC cannot be read, so the API server was asked instead: "+message.OneLine(err.Error()))
	}
	for _, d := range h.Dangling {
		out = append(out, d.String())
	}
	if len(h.NotKept) > 0 {
		out = append(out, "the API server was asked instead: "+h.notKept())
	}
	return out
}

// notKept says why the account may have more permissions than its rules, or returns "".
func (h *effectiveRules) notKept() string {
	if len(h.NotKept) == 0 {
		return ""
	}
	return "ClusterRoles of the account have more rules than Remit evaluates: " + message.OneLine(strings.Join(h.NotKept[:min(len(h.NotKept), maxAdvice)], ", "))
}

// Refuse adds an object that cannot be written, and the reason, to the report. Use it for reasons that are known
// without a dry run.
func (r *Report) Refuse(object string, why error) {
	var unserved *execute.UnservedError
	r.refuse(Refusal{Object: object, Message: serverMessage(why), Unserved: errors.As(why, &unserved), ByAPIServer: codeOf(why) != 0})
}

// RefuseConflict adds an object that cannot be written because another client manages one of its fields. The text contains the
// API server's message.
func (r *Report) RefuseConflict(object string, text error) {
	r.refuse(Refusal{Object: object, Message: status.Text(text.Error()), ByAPIServer: true})
}

// RefusalReason returns the reason for the condition ObjectsRefused of a report with refused objects.
func (r Report) RefusalReason() operatorsv1alpha1.InstallPlanConditionReason {
	if slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.ByAPIServer }) {
		return names.ReasonRefusedByAPIServer
	}
	return names.ReasonRefusedByRemit
}

// DeferUntilServed moves the missing permissions to Later, and drops the allowed and unknown ones, if the cluster does
// not serve a kind of the plan. Permissions are then not granted for objects that cannot be installed yet. It reports
// whether any kind is not served.
func (r *Report) DeferUntilServed() bool {
	if !slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.Unserved }) {
		return false
	}
	r.Later, r.Findings, r.Allowed, r.Unknown = r.Findings, nil, nil, nil
	r.Notes = append(r.Notes, "missing permissions are not needed until the cluster serves every kind that the install requires")
	return true
}

func (r *Report) refuse(refusal Refusal) {
	if !slices.Contains(r.Refused, refusal) {
		r.Refused = append(r.Refused, refusal)
	}
}

func (r *Report) add(n Need, h *effectiveRules) {
	if slices.ContainsFunc(n.Alternatives, func(rule rbacv1.PolicyRule) bool { return len(h.set.Missing([]rbacv1.PolicyRule{rule})) == 0 }) {
		return
	}
	f := Finding{
		Namespace: n.Namespace, Missing: h.set.Missing(n.Rules), Granted: n.Granted, Unenforced: n.Unenforced, Hidden: n.Hidden, Alternatives: n.Alternatives, Cause: n.Cause, Source: SourceRBAC,
	}
	switch {
	case n.ReadError != nil:
		f.Why = n.ReadError.Error()
	case len(f.Missing) == 0:
		return
	default:
		if err := errors.Join(h.ReadErrors...); err != nil {
			f.Why = message.OneLine(err.Error())
		} else {
			f.Why = h.notKept()
		}
	}
	h.incomplete = true
	if f.Why != "" {
		r.Unknown = append(r.Unknown, f)
		return
	}
	r.Findings = append(r.Findings, f)
}

// Empty reports whether no permissions are missing.
func (r Report) Empty() bool { return len(r.Findings) == 0 }

// Clear reports whether no permissions are missing and no objects are refused, so that the writes can be attempted.
func (r Report) Clear() bool { return r.Empty() && len(r.Refused) == 0 }

// Doubts returns the Unknown permissions that the API server does not check when the objects are written.
func (r Report) Doubts() (out []Finding) {
	for _, f := range r.Unknown {
		if f.Unenforced {
			out = append(out, f)
		}
	}
	return out
}

// Final reports whether any object is refused permanently: no change to the cluster can make it acceptable.
func (r Report) Final() bool {
	return slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.Final })
}

// Scope lists the missing rules in one namespace, or cluster-wide.
type Scope struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Scopes returns the missing rules of all findings that are not hidden, compacted and sorted by namespace; the whole
// cluster comes first.
func (r Report) Scopes() []Scope { return scopesOf(r.Findings) }

// scopesOf returns the rules of the findings by scope. It omits from each namespace the rules that are also missing in
// the whole cluster. Namespaces often have the same missing rules, which are then compacted only once.
func scopesOf(findings []Finding) []Scope {
	byNamespace := map[string][]rbacv1.PolicyRule{}
	for _, f := range findings {
		if !f.Hidden {
			byNamespace[f.Namespace] = append(byNamespace[f.Namespace], f.Missing...)
		}
	}
	everywhere := rbac.NewSet(byNamespace[rbac.ClusterScope])
	known := map[string][]rbacv1.PolicyRule{}
	var out []Scope
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		rules := byNamespace[namespace]
		if namespace == rbac.ClusterScope {
			rules = rbac.Minimal(rules)
		} else {
			key := strings.Join(linesOf(rules), "\n")
			if _, ok := known[key]; !ok {
				known[key] = rbac.Minimal(everywhere.Uncovered(rules))
			}
			rules = known[key]
		}
		if len(rules) > 0 {
			out = append(out, Scope{Namespace: namespace, Rules: rules})
		}
	}
	return out
}

func linesOf(rules []rbacv1.PolicyRule) []string {
	out := make([]string, 0, len(rules))
	for _, rule := range rules {
		out = append(out, rbac.Line(rule))
	}
	return out
}

// HiddenCauses returns descriptions of the missing permissions whose rules must not be shown.
func (r Report) HiddenCauses() []string { return hiddenCauses(r.Findings) }

func hiddenCauses(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Hidden {
			out = append(out, message.OneLine(f.Cause))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func count(scopes []Scope) int {
	n := 0
	for _, s := range scopes {
		n += len(s.Rules)
	}
	return n
}
