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

// CSVRuleChecker answers whether a ServiceAccount holds the rules that a ClusterServiceVersion
// states. The resolver asks it about the account of the OperatorGroup; the requirement status asks
// it about the operator's own ServiceAccounts as well (seed 001).
type CSVRuleChecker struct {
	listers rbac.Listers
	csv     *operatorsv1alpha1.ClusterServiceVersion
	// held remembers the rules of an account in a namespace: a checker is made for one look at one
	// CSV, and many rules are asked of the same account.
	held map[heldKey]rbac.Set
}

type heldKey struct{ accountNamespace, account, namespace string }

// NewCSVRuleChecker makes a checker for one look at one CSV. It must not be kept: it remembers.
func NewCSVRuleChecker(
	roleLister rbacv1listers.RoleLister,
	roleBindingLister rbacv1listers.RoleBindingLister,
	clusterRoleLister rbacv1listers.ClusterRoleLister,
	clusterRoleBindingLister rbacv1listers.ClusterRoleBindingLister,
	csv *operatorsv1alpha1.ClusterServiceVersion,
) *CSVRuleChecker {
	return &CSVRuleChecker{
		listers: rbac.Listers{
			Roles:               roleLister,
			RoleBindings:        roleBindingLister,
			ClusterRoles:        clusterRoleLister,
			ClusterRoleBindings: clusterRoleBindingLister,
		},
		csv:  csv,
		held: map[heldKey]rbac.Set{},
	}
}

// RuleSatisfied says whether the ServiceAccount holds the rule in the namespace, or in the whole
// cluster where namespace is "". A rule that the API server would refuse is an error, never satisfied.
func (c *CSVRuleChecker) RuleSatisfied(sa *corev1.ServiceAccount, namespace string, rule rbacv1.PolicyRule) (bool, error) {
	rules := []rbacv1.PolicyRule{rule}
	held, err := c.heldFor(sa, namespace, rules)
	return err == nil && held.Covers(rules), err
}

// MissingRules is RuleSatisfied for many rules: it returns those that the ServiceAccount lacks. Rules that
// expand to more than rbac.MaxAtoms together are an error, too.
func (c *CSVRuleChecker) MissingRules(sa *corev1.ServiceAccount, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	held, err := c.heldFor(sa, namespace, rules)
	if err != nil {
		return nil, err
	}
	return held.Missing(rules), nil
}

// heldFor are the rules that the ServiceAccount holds, where these can be asked for.
func (c *CSVRuleChecker) heldFor(sa *corev1.ServiceAccount, namespace string, rules []rbacv1.PolicyRule) (rbac.Set, error) {
	if err := rbac.ValidateRules(rules, namespace != rbac.ClusterScope); err != nil {
		return rbac.Set{}, fmt.Errorf("ClusterServiceVersion %q: %w", c.csv.Name, err)
	}
	key := heldKey{accountNamespace: sa.Namespace, account: sa.Name, namespace: namespace}
	if held, ok := c.held[key]; ok {
		return held, nil
	}
	gathered := c.listers.LowerBound(rbac.ServiceAccount(sa.Namespace, sa.Name), namespace)
	if err := errors.Join(gathered.ReadErrors...); err != nil {
		return rbac.Set{}, fmt.Errorf("rules held by ServiceAccount %s/%s: %w", sa.Namespace, sa.Name, err)
	}
	c.held[key] = gathered.Set()
	return c.held[key], nil
}
