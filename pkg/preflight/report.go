package preflight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// Source says how something was found out.
type Source string

// Sources of a Finding.
const (
	// SourceRBAC is the cluster's RBAC objects, looked at by ourselves.
	SourceRBAC Source = "rbac"
	// SourceReview is the API server, which was asked by a SubjectAccessReview: all of its authorizers.
	SourceReview Source = "review"
	// SourceDryRun is the API server's answer to the write itself, sent as a dry run.
	SourceDryRun Source = "dryrun"
)

// Finding is what is missing of one need.
type Finding struct {
	Namespace string
	Missing   []rbacv1.PolicyRule
	// Granted, Unless and Elsewhere are the need's.
	Granted   bool
	Elsewhere bool
	Unless    []rbacv1.PolicyRule
	Cause     string
	Source    Source
	// Why says, of what is unknown, why it is.
	Why string
}

// Refusal is an object that the API server refuses for another reason than rights.
type Refusal struct {
	// Object is "<Kind> <namespace>/<name>".
	Object  string `json:"object"`
	Message string `json:"message"`
	// Final says that no change of the cluster makes it acceptable: the bundle is wrong.
	Final bool `json:"final,omitempty"`
	// Unserved says that the cluster does not know the object's kind.
	Unserved bool `json:"unserved,omitempty"`
}

// Report is all that an account lacks for a plan, and whatever else is in the way. It is deterministic.
type Report struct {
	// Account is the ServiceAccount.
	Account types.NamespacedName
	// Findings are missing.
	Findings []Finding
	// Allowed is what RBAC does not give and another authorizer allows.
	Allowed []Finding
	// Unknown is what could not be decided. It never stops a plan: the writes decide.
	Unknown []Finding
	// Later are missing too, and need not be granted as long as the cluster does not serve a kind.
	Later []Finding
	// Refused are objects that the API server does not take, whoever sends them.
	Refused []Refusal
	// Notes are what an administrator should know besides.
	Notes []string
	// Changes are between the versions of the plan and those whose place they take.
	Changes []Change
	// Blind says that RBAC could not be read, or not all of it: no change of it will be noticed.
	Blind bool
	// TooMuch says that the account holds more than is looked at. A change of that will be noticed.
	TooMuch *rbac.LimitError
	// Begun says that a part of the plan was written before.
	Begun bool
	// InUse warns of roles that have the name of one of the grant's and are something else.
	InUse []string
	// Details says where the whole of it is, for a summary.
	Details string
}

// Holder gives the rules that the account holds in a namespace ("" for the whole cluster only).
type Holder func(namespace string) ([]rbacv1.PolicyRule, error)

// Evaluate holds the needs against what the account holds. A Holder's error is returned.
func Evaluate(account types.NamespacedName, needs []Need, held Holder) (Report, error) {
	var failed error
	report := Examine(account, needs, func(namespace string) rbac.Permissions {
		rules, err := held(namespace)
		failed = errors.Join(failed, err)
		return rbac.Permissions{Namespace: namespace, Rules: rules}
	})
	if failed != nil {
		return Report{}, fmt.Errorf("rules held by ServiceAccount %s: %w", account, failed)
	}
	return report, nil
}

// Examine is Evaluate for what may be known in part only: where it could not be told all that the account
// holds, what seems to be missing is Unknown.
func Examine(account types.NamespacedName, needs []Need, holding func(namespace string) rbac.Permissions) Report {
	report := Report{Account: account}
	scopes := map[string]*held{}
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
			h := holding(n.Namespace)
			scopes[n.Namespace] = &held{Permissions: h, set: h.Set()}
		}
		report.add(n, scopes[n.Namespace])
	}
	for _, namespace := range slices.Sorted(maps.Keys(scopes)) {
		report.Notes = append(report.Notes, scopes[namespace].notes()...)
		report.unread(scopes[namespace].ReadErrors)
	}
	slices.Sort(report.Notes)
	report.Notes = slices.Compact(report.Notes)
	return report
}

func (r *Report) unread(errs []error) {
	var tooMuch *rbac.LimitError
	switch err := errors.Join(errs...); {
	case errors.As(err, &tooMuch):
		r.TooMuch = tooMuch
	case err != nil:
		r.Blind = true
	}
}

// held is what an account holds in a scope, ready to be asked about.
type held struct {
	rbac.Permissions
	set rbac.Set
	// lacking says that something is missing there.
	lacking bool
}

// notes are said only where something is missing: then a binding without its role may be why.
func (h *held) notes() []string {
	if !h.lacking {
		return nil
	}
	var out []string
	for _, err := range h.ReadErrors {
		if inner := errors.Unwrap(err); errors.Is(inner, rbac.ErrUnreadable) {
			err = inner // whatever was to be read: nothing may
		}
		out = append(out, "RBAC is not known, so that the API server was asked instead: "+oneLine(err.Error()))
	}
	for _, d := range h.Dangling {
		out = append(out, d.String())
	}
	return out
}

// Refuse adds what is in the way of an object, in words of our own.
func (r *Report) Refuse(object string, why error) {
	var unserved *execute.UnservedError
	r.refuse(Refusal{Object: object, Message: message(why), Unserved: errors.As(why, &unserved)})
}

// ServedFirst puts off what is missing while a kind is not served, so that nobody grants permissions for what cannot be installed;
// it reports whether that is so.
func (r *Report) ServedFirst() bool {
	if !slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.Unserved }) {
		return false
	}
	r.Later, r.Findings, r.Allowed, r.Unknown = r.Findings, nil, nil, nil
	r.Notes = append(r.Notes, "permissions need not be granted before the cluster serves all kinds")
	return true
}

func (r *Report) refuse(refusal Refusal) {
	if !slices.Contains(r.Refused, refusal) {
		r.Refused = append(r.Refused, refusal)
	}
}

func (r *Report) add(n Need, h *held) {
	if slices.ContainsFunc(n.Unless, func(rule rbacv1.PolicyRule) bool { return len(h.set.Missing([]rbacv1.PolicyRule{rule})) == 0 }) {
		return
	}
	f := Finding{
		Namespace: n.Namespace, Missing: h.set.Missing(n.Rules), Granted: n.Granted, Elsewhere: n.Elsewhere, Unless: n.Unless, Cause: n.Cause, Source: SourceRBAC,
	}
	switch {
	case n.Unread != nil:
		f.Why = n.Unread.Error()
	case len(f.Missing) == 0:
		return
	default:
		if err := errors.Join(h.ReadErrors...); err != nil {
			f.Why = oneLine(err.Error())
		}
	}
	h.lacking = true
	if f.Why != "" {
		r.Unknown = append(r.Unknown, f)
		return
	}
	r.Findings = append(r.Findings, f)
}

// Empty says whether nothing is missing.
func (r Report) Empty() bool { return len(r.Findings) == 0 }

// Clear says whether nothing is missing and nothing refused: the writes may be tried.
func (r Report) Clear() bool { return r.Empty() && len(r.Refused) == 0 }

// Final says whether something is refused that no change of the cluster makes acceptable.
func (r Report) Final() bool {
	return slices.ContainsFunc(r.Refused, func(f Refusal) bool { return f.Final })
}

// Scope is what is missing in one namespace, or in the whole cluster.
type Scope struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Scopes are the missing rules of all findings, in the fewest words, by namespace; the whole cluster comes
// first.
func (r Report) Scopes() []Scope { return scopesOf(r.Findings) }

// scopesOf leaves out of each namespace what is in the whole cluster's rules already. Most namespaces are missing the same, which is
// found out once.
func scopesOf(findings []Finding) []Scope {
	byNamespace := map[string][]rbacv1.PolicyRule{}
	for _, f := range findings {
		if !f.Elsewhere {
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
			key := linesOf(rules)
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

// linesOf are rules as one text, in their order.
func linesOf(rules []rbacv1.PolicyRule) string {
	var out strings.Builder
	for _, rule := range rules {
		out.WriteString(rbac.Line(rule) + "\n")
	}
	return out.String()
}

// Elsewhere says, in words, what is missing and not shown.
func (r Report) Elsewhere() []string { return elsewhere(r.Findings) }

func elsewhere(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Elsewhere {
			out = append(out, oneLine(f.Cause))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Count is the number of missing rules after compaction.
func (r Report) Count() int { return count(r.Scopes()) }

func count(scopes []Scope) int {
	n := 0
	for _, s := range scopes {
		n += len(s.Rules)
	}
	return n
}
