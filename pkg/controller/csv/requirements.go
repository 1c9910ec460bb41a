package csv

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/requirement"
)

// gatherRequirements sets the requirement statuses, in a fixed order, and whether one is unmet.
func (r *Reconciler) gatherRequirements(ctx context.Context, s *scope) error {
	world := requirement.World{Reader: r.Client, Mapper: r.Client.RESTMapper(), ServerVersion: r.ServerVersion, Unserved: r.unserved}
	common, err := world.Of(ctx, s.csv)
	if err != nil {
		return err
	}
	for _, status := range common {
		s.require(status)
	}
	return r.requireServiceAccounts(ctx, s)
}

// showBound reports how the account covers the operator, and how the operator is called.
func (r *Reconciler) showBound(_ context.Context, s *scope) error {
	s.requireAccount()
	return r.requireHooks(s)
}

// require adds a requirement. If it is not present, the CSV is not installed.
func (s *scope) require(status operatorsv1alpha1.RequirementStatus) {
	s.requirements = append(s.requirements, status)
	s.facts.Unmet = s.facts.Unmet || status.Status != requirement.Present
}
