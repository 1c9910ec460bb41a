package preflight

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/status"
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
func (r Report) Summary() string {
	scopes := r.Scopes()
	text := r.refusals(scopes)
	if len(scopes) == 0 {
		return text
	}
	if len(r.Unknown) > 0 {
		scopes = r.grantable()
	}
	if grant, left := r.manifests(scopes, MaxSummary-len(text)-len(pasteHead)); left == 0 {
		text += pasteHead + string(grant)
	}
	return text
}

// pasteHead is the heading of the RBAC in a Summary.
const pasteHead = "\nTo grant the missing permissions, apply:\n"

// WithoutPaste returns a Summary without the RBAC that it contains.
func WithoutPaste(summary string) string {
	text, _, _ := strings.Cut(summary, pasteHead)
	return text
}

// Refusals returns the same text as Summary, but always without RBAC.
func (r Report) Refusals() string { return r.refusals(r.Scopes()) }

func (r Report) refusals(scopes []Scope) string {
	var tail []string
	if len(r.Refused) > 0 {
		tail = append(tail, join(r.refusedLines(), MaxRefusals))
	}
	if changed := r.ChangedText(); changed != "" && len(scopes) > 0 {
		tail = append(tail, changed)
	}
	if warning := r.Escalation(); warning != "" && len(scopes) > 0 && r.ClusterAdmin() == "" {
		tail = append(tail, string(message.Line(warning)))
	}
	for _, line := range append(slices.Clone(r.InUse), r.Details) {
		if line != "" {
			tail = append(tail, string(message.Line(line)))
		}
	}
	end := strings.Join(tail, "\n")
	var text string
	if len(scopes)+len(r.HiddenCauses()) > 0 {
		lines := append(append(r.head(scopes), r.lines(scopes, r.Findings)...), r.hiddenLines(r.Findings)...)
		text = join(lines, MaxSummary-len(end)-1)
	}
	return strings.Trim(text+"\n"+end, "\n")
}

func (r Report) head(scopes []Scope) []string {
	head := fmt.Sprintf("%s is missing %s; %s", r.Identity, permissions(count(scopes)+len(r.HiddenCauses())), r.written())
	if everything := r.ClusterAdmin(); everything != "" {
		return []string{everything, head}
	}
	return []string{head}
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
func (r Report) RefusedText() string {
	if len(r.Refused) == 0 {
		return ""
	}
	return strings.TrimSuffix(join(r.refusedLines(), MaxRefusals)+"\n"+string(message.Line(r.Details)), "\n")
}

// LaterText returns text for users who approve a plan. It lists the permissions that will be missing once the cluster serves all
// kinds, and the permissions that change. It contains no RBAC.
func (r Report) LaterText() string {
	scopes := scopesOf(r.Later)
	n := count(scopes) + len(hiddenCauses(r.Later))
	lines := []string{fmt.Sprintf("The cluster does not serve all kinds in the plan. Once it does, %s will be missing %s, which need not be granted before then.",
		r.Identity, permissions(n))}
	lines = append(append(lines, r.lines(scopes, r.Later)...), r.hiddenLines(r.Later)...)
	if n == 0 {
		lines = []string{fmt.Sprintf("The cluster does not serve all kinds in the plan. %s has all permissions that the plan needs.", r.Identity)}
	}
	return strings.TrimSuffix(join(lines, MaxSummary)+"\n"+r.ChangedText(), "\n")
}

// Undecided returns text that lists the permissions that could not be determined; "" if there are none.
func (r Report) Undecided() string {
	var lines []string
	for _, f := range r.Unknown {
		if f.Source != SourceDryRun {
			lines = append(lines, "- "+status.OneLine(f.Cause+": "+f.Why))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	head := fmt.Sprintf("Could not determine whether %s has all needed permissions; the API server decides on each write.", r.Identity)
	return strings.TrimSuffix(join(append([]string{head}, lines...), MaxRefusals)+"\n"+string(message.Line(r.Details)), "\n")
}

func (r Report) refusedLines() []string {
	lines := []string{fmt.Sprintf("%d object(s) were refused; %s", len(r.Refused), r.written())}
	for _, f := range r.Refused {
		text := status.OneLine(f.Message)
		if !strings.HasPrefix(text, f.Object) {
			text = f.Object + ": " + text
		}
		lines = append(lines, "- "+status.OneLine(text))
	}
	return lines
}

// join joins the lines that fit into limit bytes and, if some do not fit, appends a count of the others. Lines contain strings of
// bundles and of the API server: each remains one line, and none can look like the beginning of a YAML document.
func join(lines []string, limit int) string {
	const room = 32
	var b strings.Builder
	left := 0
	for _, text := range lines {
		line := string(message.Line(text))
		if b.Len()+len(line)+1+room > limit {
			left++
			continue
		}
		b.WriteString(line + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "and %d more\n", left)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r Report) lines(scopes []Scope, findings []Finding) []string {
	user := r.Identity.Username()
	var lines []string
	for _, s := range scopes {
		for _, rule := range s.Rules {
			if includesCreate(s.Namespace, rule, findings) {
				rule.Verbs = append([]string{"create"}, rule.Verbs...)
			}
			lines = append(lines, sentence(user, s.Namespace, rule))
		}
	}
	return lines
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

// hiddenLines returns one line for each description of missing permissions whose rules must not be shown.
func (r Report) hiddenLines(findings []Finding) []string {
	var lines []string
	for _, what := range hiddenCauses(findings) {
		lines = append(lines, fmt.Sprintf("- %s is missing %s", r.Identity, what))
	}
	return lines
}

// sentence describes a missing rule in one line, in the wording with which the API server refuses the rule's first
// verb. The verb create comes first, because readers search for it.
func sentence(user, namespace string, rule rbacv1.PolicyRule) string {
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
		return fmt.Sprintf("- User %q cannot %s path %s%s", user, first, rbac.Quoted(rule.NonResourceURLs), others)
	}
	scope := "at the cluster scope"
	if namespace != rbac.ClusterScope {
		scope = fmt.Sprintf("in the namespace %q", namespace)
	}
	if len(rule.ResourceNames) > 0 {
		scope += " (named " + rbac.Quoted(rule.ResourceNames) + ")"
	}
	return fmt.Sprintf("- User %q cannot %s resource %s in API group %s %s%s", user, first, rbac.Quoted(rule.Resources), rbac.Quoted(rule.APIGroups), scope, others)
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
