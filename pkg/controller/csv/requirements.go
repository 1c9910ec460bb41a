package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/requirement"
)

// gatherRequirements records the requirement statuses in a fixed order, and whether one of the requirements is unmet.
func (r *Reconciler) gatherRequirements(ctx context.Context, s *scope) error {
	common, err := r.world().Of(ctx, s.csv)
	if err != nil {
		return err
	}
	for _, status := range common {
		s.require(status)
	}
	return r.requireServiceAccounts(ctx, s)
}

func (r *Reconciler) world() requirement.World {
	return requirement.World{Reader: r.Client, Mapper: r.Client.RESTMapper(), ServerVersion: r.ServerVersion, Unserved: r.unserved}
}

// showBound adds the requirement statuses of the account and of the operator's webhooks and APIs.
func (r *Reconciler) showBound(ctx context.Context, s *scope) error {
	s.requireAccount()
	return r.requireHooks(ctx, s)
}

// require adds a requirement. Unless its status is Present, the CSV is not installed.
func (s *scope) require(status operatorsv1alpha1.RequirementStatus) {
	s.requirements = append(s.requirements, status)
	s.facts.Unmet = s.facts.Unmet || status.Status != requirement.Present
}

// requireServiceAccounts adds the requirement statuses of the operator's own ServiceAccounts and their permissions.
func (r *Reconciler) requireServiceAccounts(ctx context.Context, s *scope) error {
	permissions := bundle.Permissions(s.csv)
	accounts := make([]*corev1.ServiceAccount, len(permissions)) // nil if it does not exist
	var questions []question
	for i, p := range permissions {
		sa := &corev1.ServiceAccount{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.csv.Namespace, Name: p.ServiceAccount}, sa)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get ServiceAccount %s/%s: %w", s.csv.Namespace, p.ServiceAccount, err)
		}
		demands := s.demandsOf(p.Namespaced, p.Cluster)
		for i := range demands {
			demands[i].scopes = slices.DeleteFunc(demands[i].scopes, s.isWithout)
		}
		accounts[i], questions = sa, append(questions, question{account: sa, demands: demands, bound: r.boundElsewhere(s, sa)})
	}
	covered, err := s.coverAll(ctx, questions)
	if err != nil {
		return err
	}
	for i, p := range permissions {
		if accounts[i] == nil {
			s.require(operatorsv1alpha1.RequirementStatus{Version: "v1", Kind: "ServiceAccount", Name: p.ServiceAccount,
				Status: requirement.NotPresent, Message: "Service account does not exist"})
			continue
		}
		s.requireServiceAccount(accounts[i], covered[0])
		covered = covered[1:]
	}
	return nil
}

// isWithout reports whether an operator need not have its permissions in a namespace.
func (s *scope) isWithout(namespace string) bool {
	return s.occupied[namespace] != nil || s.withheld[namespace] || s.restored[namespace]
}

// requireServiceAccount adds the requirement status of an existing ServiceAccount.
func (s *scope) requireServiceAccount(sa *corev1.ServiceAccount, covered coverage) {
	status := operatorsv1alpha1.RequirementStatus{Version: "v1", Kind: "ServiceAccount", Name: sa.Name, Status: requirement.Present,
		UUID: string(sa.UID), Dependents: covered.dependents}
	switch {
	case ownedByAnother(s, sa):
		status.Status, status.Message = requirement.NotSatisfied, "Service account is owned by another ClusterServiceVersion"
	case len(covered.missing) > 0:
		status.Status, status.Message = requirement.NotSatisfied, install.AccountNotCovering+lines(covered.missing)
	case sa.Name == bundle.DefaultServiceAccount:
		status.Message = "all Pods without a serviceAccountName in the namespace get the permissions of this ServiceAccount"
	}
	s.require(status)
}

// ownedByAnother reports whether a ServiceAccount has an owner reference to another CSV but none to this CSV, and does
// not belong to this CSV's lineage. Remit's own ServiceAccounts are shared by the CSVs of a namespace.
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
	return another && !s.owner.Owns(sa) && !s.owner.Shares(sa)
}

// requireAccount reports whether the account has the CSV's permissions. Next does not treat this status as a
// requirement, because an installed CSV continues to run without the permissions. For the default account, the
// status is added only if permissions are missing, because OLM has no such status.
func (s *scope) requireAccount() {
	over := s.exceeding()
	if !s.acting.Known() || s.account.Default && len(over) == 0 {
		return
	}
	status := operatorsv1alpha1.RequirementStatus{
		Version: "v1", Kind: "ServiceAccount", Name: s.account.Name, UUID: string(s.account.UID), Status: requirement.Present,
		Message:    "the operator is bounded by ServiceAccount " + s.account.Key().String() + ", which has all permissions that the operator requests",
		Dependents: s.covered.dependents,
	}
	if len(over) > 0 {
		status.Status, status.Message = requirement.NotSatisfied, install.AccountNotCovering+lines(over)
	}
	s.requirements = append(s.requirements, status)
}

// exceeding lists the permissions that the operator has or needs but the account does not have: those that the CSV
// requests, and those that are needed to write the operator's Deployments.
func (s *scope) exceeding() []string {
	out := slices.Clone(s.covered.missing)
	var denied *MissingPermissionsError
	switch {
	case errors.As(s.facts.Refused, &denied):
		out = append(out, slices.Concat(denied.Missing, denied.Refused)...)
	case s.facts.Refused != nil:
		out = append(out, s.facts.Refused.Error())
	}
	return out
}
