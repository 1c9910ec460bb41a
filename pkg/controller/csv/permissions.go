package csv

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/rbac"
)

// requireServiceAccounts looks at the operator's own ServiceAccounts and what they hold.
func (r *Reconciler) requireServiceAccounts(ctx context.Context, s *scope) error {
	for _, p := range bundle.Permissions(s.csv) {
		sa := &corev1.ServiceAccount{}
		err := r.client.Get(ctx, types.NamespacedName{Namespace: s.csv.Namespace, Name: p.ServiceAccount}, sa)
		status := operatorsv1alpha1.RequirementStatus{Version: "v1", Kind: "ServiceAccount", Name: p.ServiceAccount, Status: present}
		switch {
		case apierrors.IsNotFound(err):
			status.Status, status.Message = notPresent, "Service account does not exist"
			s.require(status)
			continue
		case err != nil:
			return fmt.Errorf("get ServiceAccount %s/%s: %w", s.csv.Namespace, p.ServiceAccount, err)
		}
		status.UUID = string(sa.UID)
		if status.Dependents, err = s.dependents(sa, p); err != nil {
			return err
		}
		switch {
		case ownedByAnother(s, sa):
			status.Status, status.Message = notSatisfied, "Service account is owned by another ClusterServiceVersion"
		case slices.ContainsFunc(status.Dependents, unsatisfied):
			status.Status, status.Message = notSatisfied, "Policy rule not satisfied for service account"
		}
		s.require(status)
	}
	return nil
}

func unsatisfied(d operatorsv1alpha1.DependentStatus) bool {
	return d.Status != operatorsv1alpha1.DependentStatusReasonSatisfied
}

// dependents has one entry for each rule, satisfied where the ServiceAccount holds it wherever it is to.
func (s *scope) dependents(sa *corev1.ServiceAccount, p bundle.Rules) ([]operatorsv1alpha1.DependentStatus, error) {
	var out []operatorsv1alpha1.DependentStatus
	add := func(kind string, rules []rbacv1.PolicyRule, scopes []string) error {
		for _, rule := range rules {
			d, err := s.dependent(sa, rule, scopes)
			if err != nil {
				return err
			}
			d.Message = kind + " rule:" + d.Message
			out = append(out, d)
		}
		return nil
	}
	if err := add("namespaced", p.Namespaced, s.ruleScopes()); err != nil {
		return nil, err
	}
	return out, add("cluster", p.Cluster, []string{rbac.ClusterScope})
}

// ruleScopes are where namespaced rules are to hold.
func (s *scope) ruleScopes() []string {
	if slices.Contains(s.targets, rbac.ClusterScope) {
		return []string{rbac.ClusterScope}
	}
	scopes := append([]string{s.csv.Namespace}, s.targets...)
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

func (s *scope) dependent(sa *corev1.ServiceAccount, rule rbacv1.PolicyRule, scopes []string) (operatorsv1alpha1.DependentStatus, error) {
	d := operatorsv1alpha1.DependentStatus{
		Group: rbacv1.GroupName, Version: "v1", Kind: "PolicyRule", Status: operatorsv1alpha1.DependentStatusReasonSatisfied,
	}
	encoded, err := json.Marshal(rule)
	if err != nil {
		return d, fmt.Errorf("encode rule: %w", err)
	}
	d.Message = string(encoded)
	for _, namespace := range scopes {
		ok, err := s.checker.RuleSatisfied(sa, namespace, rule)
		if err != nil {
			return d, err
		}
		if !ok {
			d.Status = operatorsv1alpha1.DependentStatusReasonNotSatisfied
		}
	}
	return d, nil
}

// ownedByAnother looks at references to CSVs: one of this CSV's, or the mark of its lineage, makes the
// ServiceAccount its own.
func ownedByAnother(s *scope, sa *corev1.ServiceAccount) bool {
	another := false
	for _, ref := range sa.OwnerReferences {
		if ref.Kind != operatorsv1alpha1.ClusterServiceVersionKind {
			continue
		}
		if ref.UID == s.csv.UID {
			return false
		}
		another = true
	}
	return another && !s.owner.Owns(sa)
}

// requireAccount shows how the account covers the CSV's permissions (seed 001). It is no requirement
// of what is installed already, which is left alone (D4), and Next does not treat it as one.
func (s *scope) requireAccount() {
	if s.client == nil {
		return
	}
	status := operatorsv1alpha1.RequirementStatus{
		Version: "v1", Kind: "ServiceAccount", Name: s.account.Name, UUID: string(s.account.UID), Status: present,
		Message: "the operator is bounded by ServiceAccount " + s.account.Key().String() + ", which holds all that its permissions ask for",
	}
	for _, line := range s.facts.Excess {
		status.Dependents = append(status.Dependents, operatorsv1alpha1.DependentStatus{
			Group: rbacv1.GroupName, Version: "v1", Kind: "PolicyRule",
			Status: operatorsv1alpha1.DependentStatusReasonNotSatisfied, Message: line,
		})
	}
	if len(status.Dependents) > 0 {
		status.Status, status.Message = notSatisfied, "Policy rule not satisfied for service account"
	}
	s.requirements = append(s.requirements, status)
}

// noteUnserved says what the CSV asks for and this version of Remit does not do. The operator is
// installed without it.
func (s *scope) noteUnserved() {
	const why = "not served by this version of Remit: it was not installed"
	var unserved []string
	for _, api := range s.csv.Spec.APIServiceDefinitions.Owned {
		status := apiService(api)
		status.Status, status.Message = notAvailable, why
		s.requirements = append(s.requirements, status)
		unserved = append(unserved, "APIService "+status.Name)
	}
	for _, hook := range s.csv.Spec.WebhookDefinitions {
		s.requirements = append(s.requirements, operatorsv1alpha1.RequirementStatus{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: string(hook.Type), Name: hook.GenerateName,
			Status: notAvailable, Message: why,
		})
		unserved = append(unserved, string(hook.Type)+" "+hook.GenerateName)
	}
	if len(unserved) > 0 {
		s.facts.Notes = append(s.facts.Notes, why+": "+strings.Join(unserved, ", "))
	}
}
