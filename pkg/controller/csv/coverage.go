package csv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Kinds of rules, as the contract names them in the dependents of a requirement status.
const (
	ruleNamespaced = "namespaced"
	ruleCluster    = "cluster"
)

// maxMissing is the number of lines of missing permissions that are kept for one ServiceAccount, because rules are compared in each
// target namespace. A message shows a few of them.
const maxMissing = 2_000

// demand contains rules from the CSV that a ServiceAccount must have in each of the scopes, which are sorted.
type demand struct {
	kind   string
	scopes []string
	rules  []rbacv1.PolicyRule
}

// coverage describes which demands a ServiceAccount meets. Only its effective rules count, not a permission to
// escalate.
type coverage struct {
	// dependents has one entry per rule, in the CSV's order. An entry is satisfied if the ServiceAccount has the rule in
	// every scope.
	dependents []operatorsv1alpha1.DependentStatus
	// missing lists the missing rules as sorted lines in the form "in namespace <ns> <rule>" or
	// "cluster-wide <rule>", at most maxMissing of them.
	missing []string
}

// question asks whether a ServiceAccount meets demands.
type question struct {
	account *corev1.ServiceAccount
	demands []demand
	// bound returns what Remit has bound to the ServiceAccount in a scope, for scopes in which others have bound more to it than Remit evaluates.
	// isKnown is false if that does not count. It is nil for an account of an OperatorGroup, which must not count for itself.
	bound func(scope string) (has rbac.Permissions, isKnown bool)
}

// cover compares demands with the effective rules of a ServiceAccount, including those granted to its groups.
func (s *scope) cover(ctx context.Context, sa *corev1.ServiceAccount, demands []demand) (coverage, error) {
	out, err := s.coverAll(ctx, []question{{account: sa, demands: demands}})
	if err != nil {
		return coverage{}, err
	}
	return out[0], nil
}

// coverAll is like cover for several ServiceAccounts. It examines one scope after the other, and in each of them all
// ServiceAccounts, because the checker keeps the rules of few ServiceAccounts and scopes at a time. ServiceAccounts whose rules
// in a scope come from the same roles are then examined with one set of rules.
func (s *scope) coverAll(ctx context.Context, questions []question) ([]coverage, error) {
	out, granted := make([]coverage, len(questions)), make([][][]bool, len(questions))
	scopes := sets.New[string]()
	for q := range questions {
		for _, d := range questions[q].demands {
			granted[q] = append(granted[q], slices.Repeat([]bool{true}, len(d.rules)))
			scopes.Insert(d.scopes...)
		}
	}
	for _, namespace := range sets.List(scopes) {
		for q := range questions {
			for i, d := range questions[q].demands {
				if _, ok := slices.BinarySearch(d.scopes, namespace); !ok || len(d.rules) == 0 {
					continue
				}
				lacking, err := s.lacking(ctx, questions[q], namespace, d.rules, granted[q][i]) //nolint:gosec // granted has a list for each demand
				if err != nil {
					return nil, err
				}
				out[q].missing = append(out[q].missing, lacking[:min(len(lacking), maxMissing-len(out[q].missing))]...)
			}
		}
	}
	for q := range questions {
		var err error
		if out[q].dependents, err = dependentsOf(questions[q].demands, granted[q]); err != nil {
			return nil, err
		}
		slices.Sort(out[q].missing)
		out[q].missing = slices.Compact(out[q].missing)
	}
	return out, nil
}

// lacking describes the rules that a ServiceAccount does not have in a scope, and records in granted which these are.
func (s *scope) lacking(ctx context.Context, q question, namespace string, rules []rbacv1.PolicyRule, granted []bool) (out []string, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	sa := q.account
	missing, err := s.checker.MissingRules(sa, namespace, rules) // omits those of a crowded scope
	var limit *rbac.LimitError
	switch isLimit := errors.As(err, &limit); {
	case err != nil && !isLimit, len(missing) == 0 && !isLimit:
		return nil, err
	case q.hasBound(namespace, rules):
		return nil, nil
	case isLimit:
		clear(granted)
		return []string{summary(limit)}, nil
	}
	out = rbac.Lines(namespace, missing, maxLines/2)
	for i, rule := range rules {
		ok, err := s.checker.RuleSatisfied(sa, namespace, rule)
		if err != nil {
			return nil, err
		}
		granted[i] = granted[i] && ok
	}
	return out, nil
}

// hasBound reports whether Remit has bound the rules to the ServiceAccount in a scope.
func (q question) hasBound(scope string, rules []rbacv1.PolicyRule) bool {
	if q.bound == nil {
		return false
	}
	has, isKnown := q.bound(scope)
	return isKnown && len(has.Set().Missing(rules)) == 0
}

// boundElsewhere returns what Remit has bound to an operator's ServiceAccount in other namespaces than the CSV's. Their users can bind any
// number of rules to it, which must not hold up the operator in all others (docs/adr/0093).
func (r *Reconciler) boundElsewhere(s *scope, sa *corev1.ServiceAccount) func(string) (rbac.Permissions, bool) {
	return func(scope string) (rbac.Permissions, bool) {
		if !s.isElsewhere(scope) {
			return rbac.Permissions{}, false
		}
		return r.RBAC.LowerBoundOf(rbac.ServiceAccount(sa.Namespace, sa.Name), scope, func(b rbac.Binding) bool { return s.owner.Owns(b) }), true
	}
}

// dependentsOf returns the dependents of demands. granted contains, for each rule, whether it is granted in all scopes.
func dependentsOf(demands []demand, granted [][]bool) (out []operatorsv1alpha1.DependentStatus, err error) {
	for i, d := range demands {
		for j, rule := range d.rules {
			dependent, err := policyRule(d.kind, rule, granted[i][j])
			if err != nil {
				return nil, err
			}
			out = append(out, dependent)
		}
	}
	return out, nil
}

func policyRule(kind string, rule rbacv1.PolicyRule, granted bool) (operatorsv1alpha1.DependentStatus, error) {
	encoded, err := json.Marshal(rule)
	if err != nil {
		return operatorsv1alpha1.DependentStatus{}, fmt.Errorf("encode rule: %w", err)
	}
	return dependent(granted, kind+" rule:"+string(encoded)), nil
}

func dependent(granted bool, message string) operatorsv1alpha1.DependentStatus {
	status := operatorsv1alpha1.DependentStatusReasonSatisfied
	if !granted {
		status = operatorsv1alpha1.DependentStatusReasonNotSatisfied
	}
	return operatorsv1alpha1.DependentStatus{
		Group: rbacv1.GroupName, Version: "v1", Kind: "PolicyRule", Status: status, Message: message,
	}
}

// demandsOf returns the demands for namespaced rules in each scope in which they are granted, and for cluster-wide
// rules.
func (s *scope) demandsOf(namespaced, cluster []rbacv1.PolicyRule) []demand {
	return []demand{
		{kind: ruleNamespaced, scopes: s.ruleScopes(), rules: namespaced},
		{kind: ruleCluster, scopes: []string{rbac.ClusterScope}, rules: cluster},
	}
}

// demandsOnAccount returns the rules that the account must have to grant the operator's permissions. As in
// build.Grants, they include the permission to read Namespaces if the operator serves all namespaces.
func (s *scope) demandsOnAccount() []demand {
	var out []demand
	allNamespaces := false
	for _, p := range bundle.Permissions(s.csv) {
		out = append(out, s.demandsOf(p.Namespaced, p.Cluster)...)
		allNamespaces = allNamespaces || len(p.Namespaced) > 0 && slices.Contains(s.targets, rbac.ClusterScope)
	}
	if allNamespaces {
		out = append(out, demand{kind: ruleCluster, scopes: []string{rbac.ClusterScope}, rules: []rbacv1.PolicyRule{build.ReadNamespaces()}})
	}
	return out
}

// ruleScopes returns the scopes in which namespaced rules are granted: the whole cluster, or each target and the CSV's
// namespace.
func (s *scope) ruleScopes() []string {
	if slices.Contains(s.targets, rbac.ClusterScope) {
		return []string{rbac.ClusterScope}
	}
	return sets.List(sets.New(s.targets...).Insert(s.csv.Namespace))
}

// gatherCoverage compares the CSV's permissions with the account's. If the account neither has them nor is allowed to
// grant them with the verbs escalate and bind, the CSV is not installed. An installed operator continues to run, and
// the missing permissions are reported. If they are missing only in targets other than the CSV's own namespace, an installed
// operator gets no permissions there, and everything else is written as before (docs/adr/0093).
func (r *Reconciler) gatherCoverage(ctx context.Context, s *scope, want []*unstructured.Unstructured) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.account.Namespace, Name: s.account.Name}}
	var err error
	if s.covered, err = s.cover(ctx, account, s.demandsOnAccount()); err != nil || len(s.covered.missing) == 0 {
		return err
	}
	excess := &MissingPermissionsError{Account: s.account, Missing: s.covered.missing}
	barred, unknown, err := notGrantable(ctx, r.RBAC, s.account, want)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		for _, f := range r.confirm(ctx, s, "grants", unknown).Findings {
			barred[f.Namespace] = true
		}
	}
	isAtHome := func(namespace string) bool { return !s.isElsewhere(namespace) }
	switch namespaces := slices.Collect(maps.Keys(barred)); {
	case len(barred) == 0:
	case slices.ContainsFunc(namespaces, isAtHome) || !r.hasBegun(ctx, s):
		s.facts.Excess = excess
	default:
		s.withheld = barred
	}
	isReported := s.facts.Exceeding != "" || s.facts.Elsewhere != "" && len(s.withheld) > 0 ||
		slices.ContainsFunc(s.facts.Notes, func(note string) bool { return strings.HasPrefix(note, noteExceeds) })
	if !isReported {
		s.facts.Notes = append(s.facts.Notes, noteExceeds+excess.Error())
	}
	return nil
}

// notGrantable returns the scopes in which the API server would not let the account write the operator's roles and bindings. If a
// ClusterRole of the account has too many rules there, only the API server knows, and it returns what to ask about (docs/adr/0105). It
// examines one scope after the other, because the account's permissions are kept for few of them at a time.
func notGrantable(ctx context.Context, l rbac.Listers, account scoped.Account, want []*unstructured.Unstructured) (barred map[string]bool, unknown []preflight.Need, err error) {
	rules := map[string][]rbacv1.PolicyRule{} // by kind, namespace and name of the role
	key := func(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }
	decoded := map[*any][]rbacv1.PolicyRule{} // by the first rule: roles in several namespaces share their rules
	grants := make([]rbac.Grant, 0, len(want))
	for _, obj := range want {
		grant, err := grantOf(obj, decoded, func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
			return rules[key(ref.Kind, namespace, ref.Name)], nil
		})
		if err != nil {
			return nil, nil, err
		}
		rules[key(obj.GetKind(), obj.GetNamespace(), obj.GetName())] = grant.Rules
		grants = append(grants, grant)
	}
	slices.SortStableFunc(grants, func(a, b rbac.Grant) int { return strings.Compare(a.Namespace, b.Namespace) })
	granted := rbac.NewRecent(func(namespace string) rbac.Permissions {
		return l.LowerBound(rbac.ServiceAccount(account.Namespace, account.Name), namespace)
	})
	barred = map[string]bool{}
	for _, grant := range grants {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		switch may := granted.Get(grant.Namespace); {
		case barred[grant.Namespace] || grant.Check(may).Covered():
		case len(may.NotKept) > 0:
			unknown = append(unknown, preflight.Need{Namespace: grant.Namespace, Rules: grant.Rules, Granted: true, Alternatives: []rbacv1.PolicyRule{grant.Alternative}})
		default:
			barred[grant.Namespace] = true
		}
	}
	return barred, unknown, nil
}

// grantOf returns the permissions that the API server requires for writing a role or binding. The Grant is empty for
// other kinds. decoded contains the rules of roles by the first one.
func grantOf(obj *unstructured.Unstructured, decoded map[*any][]rbacv1.PolicyRule, rulesOf rbac.RoleRules) (rbac.Grant, error) {
	var err error
	switch obj.GetKind() {
	case "Role", "ClusterRole":
		var role *rbacv1.ClusterRole
		if role, err = roleOf(obj, decoded); err == nil {
			return rbac.RoleGrant(role, nil), nil
		}
	case "RoleBinding", "ClusterRoleBinding":
		binding := &rbacv1.ClusterRoleBinding{} // a RoleBinding has the same fields
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, binding); err == nil {
			return rbac.BindingGrant(binding, rulesOf)
		}
	}
	if err != nil {
		err = fmt.Errorf("decode %s: %w", apply.Describe(obj), err)
	}
	return rbac.Grant{}, err
}

// roleOf decodes a Role, which has the same fields as a ClusterRole. Rules are decoded once.
func roleOf(obj *unstructured.Unstructured, decoded map[*any][]rbacv1.PolicyRule) (*rbacv1.ClusterRole, error) {
	role, fields := &rbacv1.ClusterRole{}, obj.Object
	rules, _ := fields["rules"].([]any)
	if len(rules) == 0 {
		return role, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, role)
	}
	known, ok := decoded[&rules[0]]
	if ok {
		fields = maps.Clone(fields)
		delete(fields, "rules")
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, role)
	if ok {
		role.Rules = known
	} else {
		decoded[&rules[0]] = role.Rules
	}
	return role, err
}
