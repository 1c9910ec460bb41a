package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RequestToken returns the rules that allow requesting tokens for the named ServiceAccounts or, without names, for all
// ServiceAccounts.
func RequestToken(names ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: names, Verbs: []string{"create"}}}
}

// CanRequestToken reports whether a subject is allowed to request tokens for an account, that is, whether the account
// is enrolled for the subject (security model, rule 5).
func (l Listers) CanRequestToken(s Subject, account types.NamespacedName) (bool, error) {
	rules, err := l.EffectiveRules(s, account.Namespace)
	return err == nil && NewSet(rules).Covers(RequestToken(account.Name)), err
}
