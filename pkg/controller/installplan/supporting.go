package installplan

import (
	"context"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

// trySupporting refuses the plan if an object that the csv controller would write later belongs to someone else: an object for
// the webhooks and APIs of an operator, or a CustomResourceDefinition that the operator would convert. Otherwise, the operator's
// roles and bindings would exist although the operator can never be installed.
func (s *run) trySupporting(ctx context.Context) error {
	for _, st := range s.steps {
		if !st.IsCSV() {
			continue
		}
		supporting, err := preflight.Supporting(st, func(kind, namespace, name string) bool {
			live, err := s.reconciler.RBAC.Object(kind, namespace, name)
			return err == nil && !st.Owner.Owns(live)
		})
		if err != nil {
			return err
		}
		occupied, err := s.executor.Occupied(ctx, supporting, supporting)
		if err != nil {
			return err
		}
		for _, state := range occupied {
			s.refuse(state.Step, state.Problem)
		}
		if err := s.tryConversions(st); err != nil {
			return err
		}
	}
	return nil
}

// tryConversions refuses to convert CustomResourceDefinitions of another owner. The plan itself may share them, if they serve what
// its operator needs.
func (s *run) tryConversions(st step.Step) error {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(st.Object, csv); err != nil {
		return err
	}
	converted := webhook.Conversions(webhook.Input{CSV: csv})
	for _, state := range s.states {
		isConverted := func(c webhook.Conversion) bool { return c.CRD == state.Step.Object.GetName() }
		if state.Problem != nil || !state.Step.IsCRD() || !slices.ContainsFunc(converted, isConverted) {
			continue
		}
		if err := apply.Check(state.Live, state.Step.Object, st.Owner); err != nil {
			s.refuse(state.Step, err)
		}
	}
	return nil
}

// tryTokens refuses Secrets with tokens of ServiceAccounts that exceed the account.
func (s *run) tryTokens(ctx context.Context) error {
	for _, state := range s.states {
		if state.Problem != nil {
			continue
		}
		err := deployment.CheckToken(state.Step.Object, state.Live, s.bound(ctx, state.Step.Owner, s.madeBefore))
		if kit.Is[*deployment.IdentityError](err) {
			s.refuse(state.Step, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// madeBefore returns when the install created a ServiceAccount, or deployment.NotYet if it is about to. It returns false for
// ServiceAccounts of others.
func (s *run) madeBefore(serviceAccount string) (time.Time, bool) {
	for _, state := range s.states {
		obj := state.Step.Object
		if obj.GetKind() != "ServiceAccount" || obj.GetNamespace() != s.plan.Namespace || obj.GetName() != serviceAccount {
			continue
		}
		if state.Live == nil {
			return deployment.NotYet(), true
		}
		return state.Live.GetCreationTimestamp().Time, state.Step.Owner.Owns(state.Live)
	}
	return time.Time{}, false
}
