package preflight

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	// MaxSummary is the maximum length, in bytes, of the text of a Report. Rules that do not fit are omitted and counted.
	MaxSummary = 24 * 1024
	// MaxRefusals is the maximum length, in bytes, of the part of the text that lists refused objects.
	MaxRefusals = 8 * 1024
)

// Summary returns the report as text: one sentence, one line for each missing rule in the wording of the API server's
// refusals, and, if it fits, the RBAC that grants the rules.
func (r Report) Summary() message.Text {
	scopes := r.Scopes()
	text := r.refusals(scopes)
	if len(scopes) == 0 {
		return text
	}
	if len(r.Unknown) > 0 {
		scopes = r.grantable()
	}
	if grant, left := r.manifests(scopes, MaxSummary-len(text)-len(pasteHead)-1); left == 0 {
		text = message.Lines(text, pasteHead, grant)
	}
	return text
}

// pasteHead is the line before the RBAC in a Summary.
const pasteHead = "To grant the missing permissions, apply:"

// WithoutPaste returns a Summary without the RBAC that it contains.
func WithoutPaste(summary string) string {
	text, _, _ := strings.Cut(summary, "\n"+pasteHead+"\n")
	return text
}

// Refusals returns the same text as Summary, but always without RBAC.
func (r Report) Refusals() message.Text { return r.refusals(r.Scopes()) }

func (r Report) refusals(scopes []Scope) message.Text {
	var tail []message.Text
	if len(r.Refused) > 0 {
		tail = append(tail, join(r.refusedLines(), MaxRefusals))
	}
	if len(scopes) > 0 {
		tail = append(tail, r.ChangedText())
	}
	if warning := r.Escalation(); warning != "" && len(scopes) > 0 {
		tail = append(tail, warning)
	}
	end := message.Lines(append(append(tail, r.InUse...), r.Details)...)
	if len(scopes)+len(r.HiddenCauses()) == 0 {
		return end
	}
	lines := append(append(r.head(scopes), r.lines(scopes, r.Findings)...), r.hiddenLines(r.Findings)...)
	return message.Lines(join(lines, MaxSummary-len(end)-1), end)
}

func (r Report) head(scopes []Scope) []message.Text {
	head := message.Sprintf("%s is missing %s; %s", r.Identity, permissions(count(scopes)+len(r.HiddenCauses())), r.written())
	if everything := r.ClusterAdmin(); everything != "" {
		return []message.Text{everything, head}
	}
	return []message.Text{head}
}

// permissions formats a number of permissions, such as "2 permissions".
func permissions(n int) string {
	if n == 1 {
		return "1 permission"
	}
	return fmt.Sprintf("%d permissions", n)
}

func (r Report) written() string {
	if r.Begun {
		return "nothing more was written."
	}
	return "nothing was written."
}

// RefusedText returns text that lists the refused objects with the reasons; "" if there are none.
func (r Report) RefusedText() message.Text {
	if len(r.Refused) == 0 {
		return ""
	}
	return message.Lines(join(r.refusedLines(), MaxRefusals), r.Details)
}

// LaterText returns text for users who approve a plan. It lists the permissions that will be missing once the cluster serves all
// kinds, and the permissions that change. It contains no RBAC.
func (r Report) LaterText() message.Text {
	scopes := scopesOf(r.Later)
	n := count(scopes) + len(hiddenCauses(r.Later))
	lines := []message.Text{message.Sprintf("The cluster does not serve all kinds in the plan. Once it does, %s will be missing %s, which need not be granted before then.",
		r.Identity, permissions(n))}
	lines = append(append(lines, r.lines(scopes, r.Later)...), r.hiddenLines(r.Later)...)
	if n == 0 {
		lines = []message.Text{message.Sprintf("The cluster does not serve all kinds in the plan. %s has all permissions that the plan needs.", r.Identity)}
	}
	return message.Lines(join(lines, MaxSummary), r.ChangedText())
}

// Undecided returns text that lists the permissions that could not be determined; "" if there are none.
func (r Report) Undecided() message.Text {
	var lines []message.Text
	for _, f := range r.Unknown {
		if f.Source != SourceDryRun {
			lines = append(lines, message.Sprintf("- %s: %s", f.Cause, f.Why))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	head := message.Sprintf("Could not determine whether %s has all needed permissions; the API server decides on each write.", r.Identity)
	if len(r.Doubts()) > 0 {
		head += " What a webhook intercepts must be known before, because the API server does not decide on that."
	}
	return message.Lines(join(append([]message.Text{head}, lines...), MaxRefusals), r.Details)
}

func (r Report) refusedLines() []message.Text {
	lines := []message.Text{message.Sprintf("%d object(s) were refused; %s", len(r.Refused), r.written())}
	for _, f := range r.Refused {
		if strings.HasPrefix(f.Message, f.Object) {
			lines = append(lines, message.Sprintf("- %s", f.Message))
		} else {
			lines = append(lines, message.Sprintf("- %s: %s", f.Object, f.Message))
		}
	}
	return lines
}

// join joins the lines that fit into limit bytes and, if some do not fit, appends a count of the others.
func join(lines []message.Text, limit int) message.Text {
	const room = 32
	var fit []message.Text
	size, left := 0, 0
	for _, line := range lines {
		if size+len(line)+1+room > limit {
			left++
			continue
		}
		size += len(line) + 1
		fit = append(fit, line)
	}
	if left > 0 {
		fit = append(fit, message.Sprintf("and %d more", left))
	}
	return message.Lines(fit...)
}

// maxIncluded bounds the rules with wildcards that are compared with all that is missing, because bundles can have thousands of both.
const maxIncluded = 100

func (r Report) lines(scopes []Scope, findings []Finding) []message.Text {
	user, included := r.Identity.Username(), 0
	var lines []message.Text
	for _, s := range scopes {
		for _, rule := range s.Rules {
			if hasWildcard(rule) {
				included++
			}
			if included > maxIncluded {
				lines = append(lines, sentence(user, s.Namespace, rule))
				continue
			}
			if includesCreate(s.Namespace, rule, findings) {
				rule.Verbs = append([]string{"create"}, rule.Verbs...)
			}
			lines = append(lines, sentence(user, s.Namespace, rule)+includedRefusal(user, s.Namespace, rule, findings))
		}
	}
	return lines
}

func hasWildcard(rule rbacv1.PolicyRule) bool {
	return slices.Contains(rule.Verbs, rbacv1.VerbAll) || slices.Contains(rule.Resources, rbacv1.ResourceAll) || slices.Contains(rule.APIGroups, rbacv1.APIGroupAll)
}

// includesCreate reports whether a finding shows that a missing rule with all verbs includes the verb create. Tools
// search for this word. Without such a finding, the account may have permission to create, because "*" includes more
// than the listed verbs.
func includesCreate(namespace string, rule rbacv1.PolicyRule, findings []Finding) bool {
	if !slices.Contains(rule.Verbs, rbacv1.VerbAll) || slices.Contains(rule.Verbs, "create") {
		return false
	}
	all := rbac.NewSet([]rbacv1.PolicyRule{rule})
	return slices.ContainsFunc(findings, func(f Finding) bool {
		if f.Hidden || namespace != rbac.ClusterScope && f.Namespace != namespace {
			return false
		}
		return slices.ContainsFunc(f.Missing, func(missing rbacv1.PolicyRule) bool {
			return slices.Contains(missing.Verbs, "create") && all.Covers([]rbacv1.PolicyRule{missing})
		})
	})
}

// includedRefusal returns the API server's refusal to create the ClusterServiceVersion if a missing rule with wildcards
// includes that permission, and "" otherwise. Tools search for it.
func includedRefusal(user, namespace string, rule rbacv1.PolicyRule, findings []Finding) message.Text {
	if !slices.Contains(rule.Resources, rbacv1.ResourceAll) && !slices.Contains(rule.APIGroups, rbacv1.APIGroupAll) {
		return ""
	}
	all := rbac.NewSet([]rbacv1.PolicyRule{rule})
	for _, f := range findings {
		if f.Hidden || f.Namespace == rbac.ClusterScope || namespace != rbac.ClusterScope && f.Namespace != namespace {
			continue
		}
		for _, missing := range f.Missing {
			if slices.Contains(missing.Resources, "clusterserviceversions") && slices.Contains(missing.Verbs, "create") && all.Covers([]rbacv1.PolicyRule{missing}) {
				return message.Sprintf("; this includes: clusterserviceversions.operators.coreos.com is forbidden: User %q cannot create resource %q in API group %q in the namespace %q",
					user, "clusterserviceversions", operatorsv1alpha1.GroupName, f.Namespace)
			}
		}
	}
	return ""
}

// hiddenLines returns one line for each description of missing permissions whose rules must not be shown.
func (r Report) hiddenLines(findings []Finding) []message.Text {
	var lines []message.Text
	for _, what := range hiddenCauses(findings) {
		lines = append(lines, message.Sprintf("- %s is missing %s", r.Identity, what))
	}
	return lines
}

// sentence describes a missing rule in one line, in the wording with which the API server refuses the rule's first
// verb. The verb create comes first, because readers search for it.
func sentence(user, namespace string, rule rbacv1.PolicyRule) message.Text {
	verbs := slices.Clone(rule.Verbs)
	if i := slices.Index(verbs, "create"); i > 0 {
		verbs = slices.Insert(slices.Delete(verbs, i, i+1), 0, "create")
	}
	first, others := "", ""
	if len(verbs) > 0 {
		first = rbac.Word(verbs[0])
	}
	if len(verbs) > 1 {
		others = ", nor " + alternatives(verbs[1:]) + " it"
	}
	if len(rule.NonResourceURLs) > 0 {
		return message.Sprintf("- User %q cannot %s path %s%s", user, first, rbac.Quoted(rule.NonResourceURLs), others)
	}
	scope := "at the cluster scope"
	if namespace != rbac.ClusterScope {
		scope = fmt.Sprintf("in the namespace %q", namespace)
	}
	if len(rule.ResourceNames) > 0 {
		scope += " (named " + rbac.Quoted(rule.ResourceNames) + ")"
	}
	return message.Sprintf("- User %q cannot %s resource %s in API group %s %s%s", user, first, rbac.Quoted(rule.Resources), rbac.Quoted(rule.APIGroups), scope, others)
}

// alternatives joins verbs as "a, b or c".
func alternatives(verbs []string) string {
	words := make([]string, 0, len(verbs))
	for _, verb := range verbs {
		words = append(words, rbac.Word(verb))
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
