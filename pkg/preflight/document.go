package preflight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits of Files, in bytes. A ConfigMap with files of this size, including its metadata, is smaller than the 1 MiB
// that the API server accepts.
const (
	MaxFiles     = 900 * 1024
	MaxGrantFile = 600 * 1024
	// maxCauses is the maximum number of causes that are listed for one rule.
	maxCauses = 20
)

// Document is the machine-readable form of a Report. Fields without a comment have the same meaning as in Report.
type Document struct {
	// Account is the ServiceAccount as <namespace>/<name>, or the user name of a ClusterExtension's synthetic user.
	Account string `json:"account"`
	// ClusterAdmin explains why the missing permissions amount to cluster-admin; "" if they do not.
	ClusterAdmin string `json:"clusterAdmin,omitempty"`
	// Escalation warns about permissions with which others can be obtained; "" if the install grants none.
	Escalation string `json:"escalation,omitempty"`
	// Missing contains the rules of the Findings that are not hidden.
	Missing []ScopeDocument `json:"missing,omitempty"`
	// Hidden describes missing permissions whose rules must not be shown to every reader.
	Hidden  []string        `json:"hidden,omitempty"`
	Later   []ScopeDocument `json:"later,omitempty"`
	Unknown []ScopeDocument `json:"unknown,omitempty"`
	Allowed []ScopeDocument `json:"allowed,omitempty"`
	InUse   []string        `json:"inUse,omitempty"`
	Refused []Refusal       `json:"refused,omitempty"`
	Notes   []string        `json:"notes,omitempty"`
	Changes []Change        `json:"changes,omitempty"`
	// LeftOut is the number of entries that did not fit.
	LeftOut int `json:"leftOut,omitempty"`
}

// ScopeDocument contains the rules of one scope.
type ScopeDocument struct {
	// Namespace is "" for the whole cluster.
	Namespace string         `json:"namespace"`
	Rules     []RuleDocument `json:"rules"`
}

// RuleDocument is a rule with the causes and sources of the findings that contain it.
type RuleDocument struct {
	Rule    rbacv1.PolicyRule `json:"rule"`
	Causes  []string          `json:"causes"`
	Sources []Source          `json:"sources"`
	Why     string            `json:"why,omitempty"`
}

// Document returns the Report as a Document.
func (r Report) Document() Document {
	var inUse []string
	for _, warning := range r.InUse {
		inUse = append(inUse, string(warning))
	}
	d := Document{
		Account: r.Identity.ID(), ClusterAdmin: string(r.ClusterAdmin()), Escalation: string(r.Escalation()),
		Missing: explain(visible(r.Findings)), Hidden: r.HiddenCauses(), Later: explain(visible(r.Later)), Unknown: explain(visible(r.Unknown)), Allowed: explain(visible(r.Allowed)),
		InUse: inUse, Refused: r.Refused, Notes: slices.Clone(r.Notes), Changes: r.Changes,
	}
	for _, f := range r.Unknown {
		if len(f.Missing) == 0 || f.Hidden { // the finding is not about a particular rule, or about one that is not shown
			d.Notes = append(d.Notes, f.Cause+": "+f.Why)
		}
	}
	return d
}

// visible returns the findings whose rules may be shown.
func visible(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Hidden })
}

// explain returns the rules of all findings, merged by scope, with their causes and sources. If these rules together are too large
// (rbac.TooLarge), it does not merge the rules of different findings.
func explain(findings []Finding) []ScopeDocument {
	var rules []rbacv1.PolicyRule
	for _, f := range findings {
		rules = append(rules, f.Missing...)
	}
	if rbac.TooLarge(rules) {
		return explainSeparately(findings)
	}
	type why struct {
		causes  map[string]bool
		sources map[Source]bool
		why     string
	}
	of := map[string]*why{}
	key := func(namespace string, atom rbacv1.PolicyRule) string { return namespace + " " + rbac.Line(atom) }
	for _, f := range findings {
		for _, atom := range rbac.Atoms(f.Missing) {
			k := key(f.Namespace, atom)
			if of[k] == nil {
				of[k] = &why{causes: map[string]bool{}, sources: map[Source]bool{}}
			}
			of[k].causes[f.Cause], of[k].sources[f.Source], of[k].why = true, true, f.Why
		}
	}
	var out []ScopeDocument
	byNamespace := map[string][]rbacv1.PolicyRule{}
	for _, f := range findings {
		byNamespace[f.Namespace] = append(byNamespace[f.Namespace], f.Missing...)
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		s := ScopeDocument{Namespace: namespace}
		for _, rule := range splitLong(rbac.Compact(byNamespace[namespace])) {
			d := RuleDocument{Rule: rule}
			all := why{causes: map[string]bool{}, sources: map[Source]bool{}}
			for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{rule}) {
				w := of[key(namespace, atom)]
				maps.Copy(all.causes, w.causes)
				maps.Copy(all.sources, w.sources)
				all.why = w.why
			}
			d.Causes, d.Sources, d.Why = limitCauses(slices.Sorted(maps.Keys(all.causes))), slices.Sorted(maps.Keys(all.sources)), all.why
			s.Rules = append(s.Rules, d)
		}
		out = append(out, s)
	}
	return out
}

// explainSeparately returns the rules of all findings by scope, without merging those of different findings.
func explainSeparately(findings []Finding) []ScopeDocument {
	by := map[string][]RuleDocument{}
	for _, f := range findings {
		for _, rule := range splitLong(f.Missing) {
			by[f.Namespace] = append(by[f.Namespace], RuleDocument{Rule: rule, Causes: []string{f.Cause}, Sources: []Source{f.Source}, Why: f.Why})
		}
	}
	var out []ScopeDocument
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		out = append(out, ScopeDocument{Namespace: namespace, Rules: by[namespace]})
	}
	return out
}

func limitCauses(causes []string) []string {
	if len(causes) <= maxCauses {
		return causes
	}
	return append(causes[:maxCauses:maxCauses], fmt.Sprintf("and %d more", len(causes)-maxCauses))
}

// Names of the files that Files returns.
const (
	FileReport = "report.yaml"
	FileGrant  = "grant.yaml"
)

// Files returns the report as files that fit into a ConfigMap. Entries that do not fit are omitted and counted.
// FileGrant is always present; if nothing is missing, it contains only a comment.
func (r Report) Files() (map[string]string, error) {
	grant, left := r.manifests(r.grantable(), MaxGrantFile)
	text, err := message.YAML(r.Document().limited(MaxFiles - len(grant)))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return map[string]string{FileReport: string(text), FileGrant: string(message.Lines(r.comments(left)...) + "\n" + grant)}, nil
}

// comments returns the lines before the grant. left is the number of rules that are not included.
func (r Report) comments(left int) []message.Text {
	if r.Empty() {
		return []message.Text{message.Sprintf("# %s is not missing any permissions.", r.Identity)}
	}
	var out []message.Text
	if everything := r.ClusterAdmin(); everything != "" {
		out = append(out, message.Sprintf("# %s", everything))
	}
	out = append(out, message.Sprintf("# Grants %s its missing permissions.", r.Identity))
	for _, warning := range r.InUse {
		out = append(out, message.Sprintf("# %s", warning))
	}
	if left > 0 {
		out = append(out, message.Sprintf("# %d rule(s) were omitted because of the size limit: kubectl remit preflight prints all of them.", left))
	}
	return out
}

// limited returns the Document without the entries that do not fit into limit bytes. The size of each entry is an
// estimate.
func (d Document) limited(limit int) Document {
	left := 0
	fits := func(entry any) bool {
		text, err := json.Marshal(entry)
		// In YAML, each value is on its own line, with dashes and indentation.
		const line, rest = 10, 100
		size := len(text) + line*bytes.Count(text, []byte(",")) + rest
		if err != nil || size > limit {
			left++
			return false
		}
		limit -= size
		return true
	}
	d.Refused = slices.DeleteFunc(slices.Clone(d.Refused), func(f Refusal) bool { return !fits(f) })
	for _, list := range []*[]ScopeDocument{&d.Missing, &d.Later, &d.Unknown, &d.Allowed} {
		var kept []ScopeDocument
		for _, s := range *list {
			s.Rules = slices.DeleteFunc(slices.Clone(s.Rules), func(rule RuleDocument) bool { return !fits(rule) })
			if len(s.Rules) > 0 {
				kept = append(kept, s)
			}
		}
		*list = kept
	}
	d.Notes = slices.DeleteFunc(slices.Clone(d.Notes), func(note string) bool { return !fits(note) })
	d.LeftOut = left
	return d
}
