package bundle

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits on the rules that the permissions of a ClusterServiceVersion have together, or a role among the manifests
// (security model, rule 8; escape suite 150). How many combinations they expand to is bounded by rbac.MaxAtoms. No
// operator of test/corpus comes near any of them: at most 493 rules, 16 resourceNames and 66 kB.
const (
	// MaxRules is the greatest number of rules.
	MaxRules = 10_000
	// MaxResourceNames is the greatest number of resourceNames of one rule.
	MaxResourceNames = 1_000
	// MaxRuleBytes is the greatest length of all words of the rules.
	MaxRuleBytes = 512 << 10
)

// checkRules says which limit rules exceed; nil where they keep to all of them.
func checkRules(rules []rbacv1.PolicyRule) error {
	if len(rules) > MaxRules {
		return fmt.Errorf("%d rules: at most %d are allowed", len(rules), MaxRules)
	}
	total := 0
	for i, r := range rules {
		if len(r.ResourceNames) > MaxResourceNames {
			return fmt.Errorf("rule %d has %d resourceNames: at most %d are allowed; leave them out, or split the rule", i+1, len(r.ResourceNames), MaxResourceNames)
		}
		for _, list := range [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs} {
			for _, word := range list {
				total += len(word)
			}
		}
	}
	if total > MaxRuleBytes {
		return fmt.Errorf("rules of %d bytes: at most %d are allowed", total, MaxRuleBytes)
	}
	if rbac.TooLarge(rules) {
		return rbac.ErrTooLarge
	}
	return nil
}
