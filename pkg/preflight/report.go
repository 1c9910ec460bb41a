package preflight

import (
	"errors"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

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
	// SourceDryRun is the API server's answer to a dry run of the write.
	SourceDryRun Source = "dryrun"
)

// Finding is the missing part of one need.
type Finding struct {
	Namespace string
	Missing   []rbacv1.PolicyRule
	// Granted, Hidden and Alternatives are those of the need.
	Granted      bool
	Hidden       bool
	Alternatives []rbacv1.PolicyRule
	Cause        string
	Source       Source
	// Why is the reason why an unknown finding could not be decided.
	Why string
}

// Refusal is an object that the API server refuses for a reason other than permissions.
type Refusal struct {
	// Object is "<Kind> <namespace>/<name>".
	Object  string `json:"object"`
	Message string `json:"message"`
	// Final reports that no change of the cluster makes the object acceptable: the bundle is invalid.
	Final bool `json:"final,omitempty"`
	// Unserved reports that the cluster does not serve the object's kind.
	Unserved bool `json:"unserved,omitempty"`
}

// Report lists all permissions that an account is missing for a plan, and all other obstacles. It is deterministic.
type Report struct {
	Account types.NamespacedName
	// Findings are the missing permissions.
	Findings []Finding
	// Allowed are permissions that another authorizer allows although RBAC does not.
	Allowed []Finding
	// Unknown lists the permissions that could not be determined. They never block a plan: the API server decides at
	// each write.
	Unknown []Finding
	// Later are missing permissions that need not be granted while the cluster does not serve a kind.
	Later []Finding
	// Refused are objects that the API server does not accept from any account.
	Refused []Refusal
	// Notes are further remarks for an administrator.
	Notes []string
	// Changes are the differences between the versions of the plan and those that they replace.
	Changes []Change
	// Blind reports that RBAC could not be read completely, so that changes of it are not noticed.
	Blind bool
	// TooMuch is set if the account's permissions exceed the limit of what is examined. Changes of them are noticed.
	TooMuch *rbac.LimitError
	// Begun reports that part of the plan was already written.
	Begun bool
	// InUse warns of existing roles that have the name of a role of the grant and other rules.
	InUse []string
	// Details tells, in a summary, where the complete report is.
	Details string
}

// Examine compares the needs with the account's permissions in each namespace ("" for the whole cluster). If not all
// permissions of the account could be read, apparently missing ones are Unknown.
func Examine(account types.NamespacedName, needs []Need, permissionsIn func(namespace string) rbac.Permissions) Report {
	report := Report{Account: account}
	scopes := map[string]*effectiveRules{}
	for _, n := range needs {
		report.Notes = append(report.Notes, n.Notes...)
		if n.Invalid != nil {
			report.refuse(Refusal{Object: n.Object, Message: message(n.Invalid), Final: true})
			continue
		}
		if rbac.TooLarge(n.Rules) {
			report.refuse(Refusal{Object: n.Object, Message: rbac.ErrTooLarge.Error(), Final: true})
			continue
		}
		if scopes[n.Namespace] == nil {
			h := permissionsIn(n.Namespace)
			scopes[n.Namespace] = &effectiveRules{Permissions: h, set: h.Set()}
		}
		report.add(n, scopes[n.Namespace])
	}
	for _, namespace := range slices.Sorted(maps.Keys(scopes)) {
		report.Notes = append(report.Notes, scopes[namespace].notes()...)
		report.addReadErrors(scopes[namespace].ReadErrors)
	}
	slices.Sort(report.Notes)
	report.Notes = slices.Compact(report.Notes)
	return report
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

// effectiveRules are the account's permissions in one scope, prepared for lookups.
type effectiveRules struct {
	rbac.Permissions
	set rbac.Set
	// incomplete reports that something is missing in the scope.
	incomplete bool
}

// notes are reported only if something is missing, because a binding without a role may be the reason.
func (h *effectiveRules) notes() []string {
	if !h.incomplete {
		return nil
	}
	var out []string
	for _, err := range h.ReadErrors {
		if inner := errors.Unwrap(err); errors.Is(inner, rbac.ErrUnreadable) {
			err = inner // no kind of RBAC object can be read
		}
		out = append(out, "RBAC cannot be read, so the API server was asked instead: "+status.OneLine(err.Error()))
	}
	for _, d := range h.Dangling {
		out = append(out, d.String())
	}
	return out
}

// Refuse adds an obstacle to an object that was found without the API server.
func (r *Report) Refuse(object string, why error) {
	var unserved *execute.UnservedError
	r.refuse(Refusal{Object: object, Message: message(why), Unserved: errors.As(why, &unserved)})
}

// DeferUntilServed moves missing permissions to Later while a kind is not served, so that no permissions are granted
// for what cannot be installed. It reports whether a kind is not served.
func (r *Report) DeferUntilServed() bool {
	if !slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.Unserved }) {
		return false
	}
	r.Later, r.Findings, r.Allowed, r.Unknown = r.Findings, nil, nil, nil
	r.Notes = append(r.Notes, "permissions need not be granted until the cluster serves all kinds")
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
		Namespace: n.Namespace, Missing: h.set.Missing(n.Rules), Granted: n.Granted, Hidden: n.Hidden, Alternatives: n.Alternatives, Cause: n.Cause, Source: SourceRBAC,
	}
	switch {
	case n.ReadError != nil:
		f.Why = n.ReadError.Error()
	case len(f.Missing) == 0:
		return
	default:
		if err := errors.Join(h.ReadErrors...); err != nil {
			f.Why = status.OneLine(err.Error())
		}
	}
	h.incomplete = true
	if f.Why != "" {
		r.Unknown = append(r.Unknown, f)
		return
	}
	r.Findings = append(r.Findings, f)
}

// Empty reports whether nothing is missing.
func (r Report) Empty() bool { return len(r.Findings) == 0 }

// Clear reports whether nothing is missing and nothing refused, so that the writes may be tried.
func (r Report) Clear() bool { return r.Empty() && len(r.Refused) == 0 }

// Final reports whether an object is refused that no change of the cluster makes acceptable.
func (r Report) Final() bool {
	return slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.Final })
}

// Scope lists what is missing in one namespace, or in the whole cluster.
type Scope struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Scopes returns the missing rules of all findings, compacted, by namespace; the whole cluster comes first.
func (r Report) Scopes() []Scope { return scopesOf(r.Findings) }

// scopesOf omits from each namespace the rules that are missing in the whole cluster anyway. Namespaces with the same
// missing rules, which is the common case, are compacted once.
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

// HiddenCauses describes the missing permissions whose rules are not shown.
func (r Report) HiddenCauses() []string { return hiddenCauses(r.Findings) }

func hiddenCauses(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Hidden {
			out = append(out, status.OneLine(f.Cause))
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
