package bundle

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits for the rules in all permissions of a ClusterServiceVersion, or in one role of a bundle (security model, rule
// 8; escape suite 150). rbac.MaxAtoms limits the number of combinations. The operators in test/corpus are far below
// these limits: at most 493 rules, 16 resourceNames and 66 kB.
const (
	// MaxRules bounds the number of rules.
	MaxRules = 10_000
	// MaxResourceNames bounds the number of resourceNames of one rule.
	MaxResourceNames = 1_000
	// MaxRuleBytes bounds the total length of all strings in the rules.
	MaxRuleBytes = 512 << 10
)

// checkRules returns an error that names the limit that the rules exceed, or nil.
func checkRules(rules []rbacv1.PolicyRule) error {
	if len(rules) > MaxRules {
		return fmt.Errorf("too many rules (%d); at most %d are allowed", len(rules), MaxRules)
	}
	total := 0
	for i, r := range rules {
		if len(r.ResourceNames) > MaxResourceNames {
			return fmt.Errorf("rule %d has %d resourceNames; at most %d are allowed; use fewer resourceNames, or split the rule", i+1, len(r.ResourceNames), MaxResourceNames)
		}
		for _, list := range [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs} {
			for _, word := range list {
				total += len(word)
			}
		}
	}
	if total > MaxRuleBytes {
		return fmt.Errorf("the rules have %d bytes; at most %d are allowed", total, MaxRuleBytes)
	}
	if rbac.TooLarge(rules) {
		return rbac.ErrTooLarge
	}
	return nil
}
