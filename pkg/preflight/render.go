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
	if elsewhere := r.Elsewhere(); len(scopes)+len(elsewhere) > 0 {
		lines := append(r.head(scopes), r.lines(scopes)...)
		for _, line := range elsewhere {
			lines = append(lines, fmt.Sprintf("- ServiceAccount %s does not hold %s", r.Account, line))
		}
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
			lines = append(lines, sentences(user, s.Namespace, rule)...)
		}
	}
	return lines
}

// sentences words a missing rule as the API server words a refusal, one for each verb; create comes
// first, as it is what people look for.
func sentences(user, namespace string, rule rbacv1.PolicyRule) []string {
	scope := "at the cluster scope"
	if namespace != rbac.ClusterScope {
		scope = fmt.Sprintf("in the namespace %q", namespace)
	}
	verbs := slices.Clone(rule.Verbs)
	slices.SortStableFunc(verbs, func(a, b string) int {
		switch "create" {
		case b:
			return 1
		case a:
			return -1
		}
		return 0
	})
	var out []string
	for _, verb := range verbs {
		if len(rule.NonResourceURLs) > 0 {
			out = append(out, fmt.Sprintf("- User %q cannot %s path %s", user, verb, list(rule.NonResourceURLs)))
			continue
		}
		line := fmt.Sprintf("- User %q cannot %s resource %s in API group %s %s",
			user, verb, list(rule.Resources), list(rule.APIGroups), scope)
		if len(rule.ResourceNames) > 0 {
			line += " (named " + list(rule.ResourceNames) + ")"
		}
		out = append(out, line)
	}
	return out
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	return strings.Join(quoted, ", ")
}
