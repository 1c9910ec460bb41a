package bundle

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits for the rules in all permissions of a ClusterServiceVersion, or in one role of a bundle (security model, rule
// 8; escape suite 150). rbac.MaxAtoms limits the number of combinations. The operators in test/corpus are far below
// these limits: at most 493 rules, 16 resourceNames and 66 kB.
const (
	// MaxRules bounds the number of rules.
	MaxRules = rbac.MaxRoleRules
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
		size, err := checkWords(r)
		if err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
		total += size
	}
	if total > MaxRuleBytes {
		return fmt.Errorf("the rules have %d bytes; at most %d are allowed", total, MaxRuleBytes)
	}
	if rbac.TooLarge(rules) {
		return rbac.ErrTooLarge
	}
	return nil
}

// checkWords returns the total length of the strings in a rule, and an error if one of them contains white space or control
// characters. The API server accepts any string, but no string with such characters matches a request, and people read these
// strings in reports (security model, rule 9).
func checkWords(r rbacv1.PolicyRule) (total int, err error) {
	for _, field := range []struct {
		name  string
		words []string
	}{{"apiGroups", r.APIGroups}, {"resources", r.Resources}, {"resourceNames", r.ResourceNames}, {"verbs", r.Verbs}, {"nonResourceURLs", r.NonResourceURLs}} {
		for _, word := range field.words {
			if err := message.CheckWord(field.name+":", word); err != nil {
				return 0, err
			}
			total += len(word)
		}
	}
	return total, nil
}
