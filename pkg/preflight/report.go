package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Holder gives the rules that the account holds in a namespace ("" for the whole cluster only).
type Holder func(namespace string) ([]rbacv1.PolicyRule, error)

// Finding is what is missing of one need.
type Finding struct {
	Namespace string
	Missing   []rbacv1.PolicyRule
	Cause     string
}

// Report is all that an account lacks for a plan. It is deterministic.
type Report struct {
	// Account is the ServiceAccount.
	Account  types.NamespacedName
	Findings []Finding
}

// Evaluate holds the needs against what the account holds.
func Evaluate(account types.NamespacedName, needs []Need, held Holder) (Report, error) {
	report := Report{Account: account}
	cache := map[string][]rbacv1.PolicyRule{}
	for _, n := range needs {
		rules, ok := cache[n.Namespace]
		if !ok {
			var err error
			if rules, err = held(n.Namespace); err != nil {
				return Report{}, fmt.Errorf("rules held by ServiceAccount %s: %w", account, err)
			}
			cache[n.Namespace] = rules
		}
		if excused(rules, n.Unless) {
			continue
		}
		if missing := rbac.Missing(rules, n.Rules); len(missing) > 0 {
			report.Findings = append(report.Findings, Finding{Namespace: n.Namespace, Missing: missing, Cause: n.Cause})
		}
	}
	return report, nil
}

func excused(held, unless []rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(unless, func(r rbacv1.PolicyRule) bool {
		return len(rbac.Missing(held, []rbacv1.PolicyRule{r})) == 0
	})
}

// Empty says whether nothing is missing.
func (r Report) Empty() bool { return len(r.Findings) == 0 }

// Scope is what is missing in one namespace, or in the whole cluster.
type Scope struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Scopes are the missing rules of all findings, in the fewest words, by namespace; the whole cluster comes
// first.
func (r Report) Scopes() []Scope {
	byNamespace := map[string][]rbacv1.PolicyRule{}
	for _, f := range r.Findings {
		byNamespace[f.Namespace] = append(byNamespace[f.Namespace], f.Missing...)
	}
	var out []Scope
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		out = append(out, Scope{Namespace: namespace, Rules: rbac.Minimal(byNamespace[namespace])})
	}
	return out
}

// Count is the number of missing rules after compaction.
func (r Report) Count() int {
	n := 0
	for _, s := range r.Scopes() {
		n += len(s.Rules)
	}
	return n
}

// grantName names the RBAC to paste; another set of missing rules, or another account, has another
// name, so that pasting a second report never takes back the first.
func (r Report) grantName(s Scope) string {
	lines := make([]string, 0, len(s.Rules))
	for _, rule := range s.Rules {
		lines = append(lines, rbac.Line(rule))
	}
	name := r.Account.Name
	if len(name) > 30 {
		name = name[:30]
	}
	return "remit-grant-" + strings.TrimRight(name, ".-") + "-" + ownerutil.Hash(append(lines, s.Namespace, r.Account.String())...)[:8]
}
