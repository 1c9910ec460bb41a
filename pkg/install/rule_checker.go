package install

import (
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// CSVRuleChecker reports whether a ServiceAccount has the rules that a ClusterServiceVersion requires. The resolver
// uses it to check the account of the OperatorGroup; the requirement status uses it to check the operator's own
// ServiceAccounts.
type CSVRuleChecker struct {
	csv *operatorsv1alpha1.ClusterServiceVersion
	// known contains the effective rules of accounts in namespaces, because the evaluation of one CSV needs the rules of the
	// same account many times.
	known *rbac.Recent[rulesKey]
}

type rulesKey struct{ accountNamespace, account, namespace string }

// NewCSVRuleChecker returns a checker for one evaluation of one CSV. Do not reuse it: it caches rules. It keeps few of them, so
// callers ask all questions about one namespace before those about the next.
func NewCSVRuleChecker(
	roleLister rbacv1listers.RoleLister,
	roleBindingLister rbacv1listers.RoleBindingLister,
	clusterRoleLister rbacv1listers.ClusterRoleLister,
	clusterRoleBindingLister rbacv1listers.ClusterRoleBindingLister,
	csv *operatorsv1alpha1.ClusterServiceVersion,
) *CSVRuleChecker {
	listers := rbac.Listers{
		Roles:               roleLister,
		RoleBindings:        roleBindingLister,
		ClusterRoles:        clusterRoleLister,
		ClusterRoleBindings: clusterRoleBindingLister,
	}
	return &CSVRuleChecker{csv: csv, known: rbac.NewRecent(func(key rulesKey) rbac.Permissions {
		return listers.LowerBound(rbac.ServiceAccount(key.accountNamespace, key.account), key.namespace)
	})}
}

// RuleSatisfied reports whether the ServiceAccount has the rule in the namespace, or cluster-wide if
// namespace is "". It returns an error for a rule that the API server would reject.
func (c *CSVRuleChecker) RuleSatisfied(sa *corev1.ServiceAccount, namespace string, rule rbacv1.PolicyRule) (bool, error) {
	rules := []rbacv1.PolicyRule{rule}
	effective, err := c.effectiveRules(sa, namespace, rules)
	return err == nil && effective.Covers(rules), err
}

// MissingRules returns the rules that the ServiceAccount does not have in the namespace, or cluster-wide if
// namespace is "". It returns an error if the API server would reject a rule, or if the rules expand to more than
// rbac.MaxAtoms.
func (c *CSVRuleChecker) MissingRules(sa *corev1.ServiceAccount, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	effective, err := c.effectiveRules(sa, namespace, rules)
	if err != nil {
		return nil, err
	}
	return effective.Missing(rules), nil
}

// effectiveRules validates the queried rules and returns the effective rules of the ServiceAccount in the namespace.
func (c *CSVRuleChecker) effectiveRules(sa *corev1.ServiceAccount, namespace string, rules []rbacv1.PolicyRule) (rbac.Set, error) {
	if err := rbac.ValidateRules(rules, namespace != rbac.ClusterScope); err != nil {
		return rbac.Set{}, fmt.Errorf("ClusterServiceVersion %q: %w", c.csv.Name, err)
	}
	if len(rules) == 0 {
		return rbac.Set{}, nil // any account has no rules, and its own ones need not be read
	}
	gathered := c.known.Get(rulesKey{accountNamespace: sa.Namespace, account: sa.Name, namespace: namespace})
	if err := errors.Join(gathered.ReadErrors...); err != nil {
		return rbac.Set{}, fmt.Errorf("effective rules of ServiceAccount %s/%s: %w", sa.Namespace, sa.Name, err)
	}
	return gathered.Set(), nil
}
