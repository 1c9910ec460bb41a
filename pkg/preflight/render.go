package preflight

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/rbac"
)

// MaxSummary bounds the text of a Report in bytes. What does not fit is left out by whole rules and
// counted.
const MaxSummary = 24 * 1024

// Summary is the report for people: a sentence, one line for each missing rule in the words of the
// API server's own refusals, and the RBAC to paste where it fits.
func (r Report) Summary() string {
	text := r.Refusals()
	if grant := pasteHead + string(r.Manifests()); len(text)+len(grant) <= MaxSummary {
		text += grant
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

// Refusals is the Summary without the RBAC to paste.
func (r Report) Refusals() string {
	return join(append([]string{r.head()}, r.lines()...), MaxSummary)
}

func (r Report) head() string {
	return fmt.Sprintf("ServiceAccount %s lacks %d rule(s); nothing was written.", r.Account, r.Count())
}

// join puts lines together up to a limit and says how many did not fit.
func join(lines []string, limit int) string {
	const room = 32
	var b strings.Builder
	for i, line := range lines {
		if b.Len()+len(line)+1+room > limit {
			fmt.Fprintf(&b, "and %d more\n", len(lines)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r Report) lines() []string {
	user := rbac.ServiceAccount(r.Account.Namespace, r.Account.Name).User
	var lines []string
	for _, s := range r.Scopes() {
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

// Manifests is YAML that grants exactly what is missing: a Role with its binding for each namespace,
// a ClusterRole with its binding for the whole cluster.
func (r Report) Manifests() []byte {
	var out bytes.Buffer
	for _, s := range r.Scopes() {
		for _, obj := range r.grant(s) {
			out.WriteString("---\n")
			out.Write(encode(obj))
		}
	}
	return out.Bytes()
}

// encode drops the empty creationTimestamp that typed objects carry.
func encode(obj runtime.Object) []byte {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return []byte("# " + err.Error() + "\n")
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		return []byte("# " + err.Error() + "\n")
	}
	return text
}

func (r Report) grant(s Scope) []runtime.Object {
	meta := metav1.ObjectMeta{Name: r.grantName(s), Namespace: s.Namespace}
	subjects := []rbacv1.Subject{{
		Kind: rbacv1.ServiceAccountKind, Namespace: r.Account.Namespace, Name: r.Account.Name,
	}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: meta.Name}
	}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	if s.Namespace == rbac.ClusterScope {
		return []runtime.Object{
			&rbacv1.ClusterRole{TypeMeta: typed("ClusterRole"), ObjectMeta: meta, Rules: s.Rules},
			&rbacv1.ClusterRoleBinding{TypeMeta: typed("ClusterRoleBinding"), ObjectMeta: meta, RoleRef: ref("ClusterRole"), Subjects: subjects},
		}
	}
	return []runtime.Object{
		&rbacv1.Role{TypeMeta: typed("Role"), ObjectMeta: meta, Rules: s.Rules},
		&rbacv1.RoleBinding{TypeMeta: typed("RoleBinding"), ObjectMeta: meta, RoleRef: ref("Role"), Subjects: subjects},
	}
}
