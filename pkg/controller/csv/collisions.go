package csv

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// collisions returns an error that names all objects that the install of a CSV would write and that belong to someone else.
// Otherwise, the operator's roles and bindings would exist although the operator can never be installed. It reads many objects in turns,
// and returns errTurn before the last one; the error then names the objects of one turn. InstallPlans check this
// themselves, so it matters for CSVs that a user created, until they have installed a Deployment. rbac are the objects that
// prepare may write. Collisions in target namespaces other than the CSV's own do not prevent the install (see ensure).
func (r *Reconciler) collisions(ctx context.Context, s *scope, account client.Client, rbac []*unstructured.Unstructured) error {
	if !s.owner.Direct || r.hasInstalled(ctx, s.csv, s.owner) {
		return nil
	}
	objs, err := s.later()
	if err != nil {
		return err
	}
	var steps []step.Step
	for _, obj := range slices.Concat(rbac, objs) {
		if !execute.IsForTarget(obj, s.owner) {
			steps = append(steps, step.Step{Object: obj, Owner: s.owner})
		}
	}
	executor := execute.Executor{Account: account, Facts: r.Live, RBAC: r.RBAC}
	from, to := s.turn.part(len(steps))
	occupied, err := executor.Occupied(ctx, steps, steps[from:to])
	if err != nil {
		return err
	}
	s.turn.compared = to
	var all []error
	for _, state := range occupied {
		all = append(all, state.Problem)
	}
	err = errors.Join(append(all, s.live.Unconvertible(s.hooks))...)
	if err == nil && to < len(steps) {
		return errTurn
	}
	return err
}

// later returns the objects that are written after the operator's roles and bindings: the objects for its webhooks and APIs, if the
// account may write them, and the Deployments.
func (s *scope) later() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, d := range s.deployments {
		obj, err := apply.Object(d)
		if err != nil {
			return nil, err
		}
		out = append(out, obj)
	}
	if s.uncalled != nil {
		return out, nil
	}
	for _, render := range []func() ([]*unstructured.Unstructured, error){s.hooks.Parts, s.hooks.Hooks} {
		objs, err := render()
		if err != nil {
			return nil, err
		}
		out = append(out, objs...)
	}
	return out, nil
}

// occupy records why the operator gets no permissions in a target namespace.
func (s *scope) occupy(namespace string, why error) {
	if s.occupied == nil {
		s.occupied = map[string]error{}
	}
	s.occupied[namespace] = execute.Occupation(namespace, why)
	if isRechecked(why) {
		s.facts.Postponed = why
	}
}

// noteOccupied adds the occupied target namespaces to the notes of the CSV.
func (s *scope) noteOccupied() {
	var all []error
	for _, namespace := range slices.Sorted(maps.Keys(s.occupied)) {
		all = append(all, s.occupied[namespace])
	}
	if len(all) > 0 {
		s.facts.Notes = append(s.facts.Notes, summary(errors.Join(all...)))
	}
}
