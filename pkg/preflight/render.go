package preflight

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	// MaxSummary bounds the text of a Report in bytes. What does not fit is left out by whole rules and
	// counted.
	MaxSummary = 24 * 1024
	// MaxRefusals bounds the part of it that tells what the API server refuses.
	MaxRefusals = 8 * 1024
)

// Summary is the report for people: a sentence, one line for each missing rule in the words of the
// API server's own refusals, and the RBAC to paste where it fits.
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

// pasteHead stands before the RBAC to paste.
const pasteHead = "\nTo grant all of it, apply:\n"

// Paste returns the RBAC to paste out of a Summary; ok is false where it has none.
func Paste(summary string) (manifests string, ok bool) {
	_, manifests, ok = strings.Cut(summary, pasteHead)
	return manifests, ok
}

// WithoutPaste is a Summary without the RBAC to paste.
func WithoutPaste(summary string) string {
	text, _, _ := strings.Cut(summary, pasteHead)
	return text
}

// Refusals is the Summary without the RBAC to paste.
func (r Report) Refusals() string { return r.refusals(r.Scopes()) }

func (r Report) refusals(scopes []Scope) string {
	var tail []string
	if len(r.Refused) > 0 {
		tail = append(tail, join(r.refusedLines(), MaxRefusals))
	}
	if changed := r.ChangedText(); changed != "" && len(scopes) > 0 {
		tail = append(tail, changed)
	}
	tail = append(tail, r.InUse...)
	if r.Details != "" {
		tail = append(tail, r.Details)
	}
	end := strings.Join(tail, "\n")
	var text string
	if len(scopes)+len(r.Elsewhere()) > 0 {
		lines := append(append(r.head(scopes), r.lines(scopes)...), r.notHeld(r.Findings)...)
		text = join(lines, MaxSummary-len(end)-1)
	}
	return strings.Trim(text+"\n"+end, "\n")
}

func (r Report) head(scopes []Scope) []string {
	head := fmt.Sprintf("ServiceAccount %s lacks %d rule(s); %s", r.Account, count(scopes)+len(r.Elsewhere()), r.written())
	if everything := r.ClusterAdmin(); everything != "" {
		return []string{everything, head}
	}
	return []string{head}
}

func (r Report) written() string {
	if r.Begun {
		return "nothing more was written."
	}
	return "nothing was written."
}

// RefusedText says which objects are refused and why; "" where there are none.
func (r Report) RefusedText() string {
	if len(r.Refused) == 0 {
		return ""
	}
	return strings.TrimSuffix(join(r.refusedLines(), MaxRefusals)+"\n"+r.Details, "\n")
}

// LaterText says, to those who have to approve a plan, what is missing once the cluster serves all kinds and what changes; there is
// no RBAC to paste.
func (r Report) LaterText() string {
	scopes := scopesOf(r.Later)
	n := count(scopes) + len(elsewhere(r.Later))
	lines := []string{fmt.Sprintf("The cluster does not serve all kinds of the plan. Once it does, ServiceAccount %s lacks %d rule(s), which need not be granted before.",
		r.Account, n)}
	lines = append(append(lines, r.lines(scopes)...), r.notHeld(r.Later)...)
	if n == 0 {
		lines = []string{fmt.Sprintf("The cluster does not serve all kinds of the plan. ServiceAccount %s lacks no permissions for it.", r.Account)}
	}
	return strings.TrimSuffix(join(lines, MaxSummary)+"\n"+r.ChangedText(), "\n")
}

// Undecided says which rights nobody could decide about; "" where there are none.
func (r Report) Undecided() string {
	var lines []string
	for _, f := range r.Unknown {
		if f.Source != SourceDryRun {
			lines = append(lines, "- "+oneLine(f.Cause+": "+f.Why))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	head := fmt.Sprintf("Whether ServiceAccount %s holds all that is needed could not be found out; the writes will tell.", r.Account)
	return strings.TrimSuffix(join(append([]string{head}, lines...), MaxRefusals)+"\n"+r.Details, "\n")
}

func (r Report) refusedLines() []string {
	lines := []string{fmt.Sprintf("%d object(s) are refused; %s", len(r.Refused), r.written())}
	for _, f := range r.Refused {
		text := oneLine(f.Message)
		if !strings.HasPrefix(text, f.Object) {
			text = f.Object + ": " + text
		}
		lines = append(lines, "- "+oneLine(text))
	}
	return lines
}

// oneLine keeps a list a list, whatever a message contains: people paste what comes after the line that says so.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

// join puts lines together up to a limit, whole lines only, and says how many did not fit.
func join(lines []string, limit int) string {
	const room = 32
	var b strings.Builder
	left := 0
	for _, line := range lines {
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

func (r Report) lines(scopes []Scope) []string {
	user := rbac.ServiceAccount(r.Account.Namespace, r.Account.Name).User
	var lines []string
	for _, s := range scopes {
		for _, rule := range s.Rules {
			lines = append(lines, sentence(user, s.Namespace, rule))
		}
	}
	return lines
}

// notHeld are lines about what is missing where the rules are not for everyone to know.
func (r Report) notHeld(findings []Finding) []string {
	var lines []string
	for _, what := range elsewhere(findings) {
		lines = append(lines, fmt.Sprintf("- ServiceAccount %s does not hold %s", r.Account, what))
	}
	return lines
}

// sentence words a missing rule in one line, for its first verb as the API server words a refusal. create is first, as it is what
// people look for.
func sentence(user, namespace string, rule rbacv1.PolicyRule) string {
	verbs := slices.Clone(rule.Verbs)
	if i := slices.Index(verbs, "create"); i > 0 {
		verbs = slices.Insert(slices.Delete(verbs, i, i+1), 0, "create")
	}
	first, others := "", ""
	if len(verbs) > 0 {
		first = verbs[0]
	}
	if len(verbs) > 1 {
		others = ", nor " + alternatives(verbs[1:]) + " it"
	}
	if len(rule.NonResourceURLs) > 0 {
		return fmt.Sprintf("- User %q cannot %s path %s%s", user, first, list(rule.NonResourceURLs), others)
	}
	scope := "at the cluster scope"
	if namespace != rbac.ClusterScope {
		scope = fmt.Sprintf("in the namespace %q", namespace)
	}
	if len(rule.ResourceNames) > 0 {
		scope += " (named " + list(rule.ResourceNames) + ")"
	}
	return fmt.Sprintf("- User %q cannot %s resource %s in API group %s %s%s", user, first, list(rule.Resources), list(rule.APIGroups), scope, others)
}

// alternatives are words as "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	return strings.Join(quoted, ", ")
}
