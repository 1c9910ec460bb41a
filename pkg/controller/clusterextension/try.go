package clusterextension

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// tryObjects finds everything that prevents the identity from writing the objects, before the first write: collisions,
// objects that the API server refuses in a dry run, and existing objects that a new schema would reject. Once all
// objects were accepted, later runs of the same pass read only the objects that are to be written.
func tryObjects(ctx context.Context, s *run) (outcome, error) {
	steps := s.steps
	if s.pass.tried {
		steps = s.due
	}
	states, err := s.executor.Gather(ctx, withBindings(steps, s.steps))
	if err != nil {
		return outcome{}, err
	}
	if err := s.examine(ctx, states); err != nil {
		return outcome{}, err
	}
	if !s.pass.tried {
		if err := s.dryRun(ctx, states); err != nil {
			return outcome{}, err
		}
		if err := s.tryExisting(ctx, states); err != nil {
			return outcome{}, err
		}
	}
	if err := s.checkIdentities(ctx); err != nil {
		return outcome{}, err
	}
	if s.findings.Clear() {
		s.pass.tried = true
		return proceed(), nil
	}
	s.publish(ctx)
	if s.findings.Final() {
		return blocked(s.aboutBundle(s.findings.Refusals().Err())), nil
	}
	s.wakeAfter(s.memory.nextDelay(s.key()))
	return waiting(s.aboutBundle(s.findings.Refusals().Err())), nil
}

// withBindings adds the other bindings of the install if there is a role: package execute compares the role's live
// bindings with them.
func withBindings(steps, all []step.Step) []step.Step {
	if !slices.ContainsFunc(steps, func(st step.Step) bool { return execute.IsRole(st.Object) }) {
		return steps
	}
	out := slices.Clone(steps)
	for _, st := range all {
		if execute.IsBinding(st.Object) && !slices.ContainsFunc(steps, func(have step.Step) bool { return have.Object == st.Object }) {
			out = append(out, st)
		}
	}
	return out
}

// examine records the states, and refuses steps with a problem.
func (s *run) examine(ctx context.Context, states []execute.State) error {
	for i := range states {
		state := &states[i]
		if state.Problem == nil && state.Step.IsCRD() {
			state.Problem = s.checkCRD(state.Live)
		}
		if state.Problem == nil && state.Live == nil {
			var err error
			if state.Problem, err = s.checkIssued(ctx, state.Step.Object); err != nil {
				return err
			}
		}
		s.states[state.Step.Object] = *state
	}
	for i := range states { // the ServiceAccounts are known now
		state := &states[i]
		if state.Problem == nil {
			var err error
			if state.Problem, err = s.checkToken(ctx, *state); err != nil {
				return err
			}
		}
		if state.Problem != nil {
			s.refuse(state.Step, state.Problem)
		}
		s.states[state.Step.Object] = *state
	}
	return nil
}

// checkIssued refuses to create a Certificate for which cert-manager would overwrite a Secret that it has not written
// for a Certificate of that name (docs/adr/0050). A Secret that Remit has issued may be overwritten, because the
// provider can be changed.
func (s *run) checkIssued(ctx context.Context, obj *unstructured.Unstructured) (problem, err error) {
	for _, secret := range s.rendered.Hooks.IssuedSecrets() {
		if !serving.Issues(obj, secret) {
			continue
		}
		live, err := apply.Live(ctx, s.executor.Account, secret)
		if err != nil || live == nil || serving.IsIssued(live) || s.owner.Owns(live) {
			return nil, err
		}
		return &apply.CollisionError{
			Object: apply.Describe(secret), Found: "already exists", Why: "cert-manager would overwrite it, but did not issue it for " + apply.Describe(obj),
			Remedy: "delete it if nothing else needs it",
		}, nil
	}
	return nil, nil
}

// checkCRD refuses to share a CustomResourceDefinition with another owner, as OLM v1 does. A definition that an earlier
// ClusterExtension of this name has left behind (assess.AnnotationKeepCRDs) belongs to this one.
func (s *run) checkCRD(live *unstructured.Unstructured) error {
	return apply.Check(live, live, s.owner)
}

// dryRun sends each request that writes an object as a dry run.
func (s *run) dryRun(ctx context.Context, states []execute.State) error {
	for _, state := range execute.Tryable(states) {
		if s.isCertified(state) {
			continue
		}
		sent, _ := s.keepEdits(state)
		if _, err := s.findings.AddDryRun(apply.Describe(state.Step.Object), s.executor.DryRun(ctx, sent)); err != nil {
			return err
		}
	}
	return nil
}

// isWritten reports whether a live Deployment was written from the desired spec.
func (s *run) isWritten(state execute.State) bool {
	if state.Live == nil || state.Step.Object.GetKind() != "Deployment" || state.Live.GetDeletionTimestamp() != nil || !s.owner.Owns(state.Live) {
		return false
	}
	return state.Live.GetLabels()[names.LabelDeploymentSpecHash] == state.Step.Object.GetLabels()[names.LabelDeploymentSpecHash] &&
		deployment.OwnedBy(state.Live, s.owner.UID)
}

// isCertified reports whether certify maintains an existing object.
func (s *run) isCertified(state execute.State) bool {
	return state.Live != nil && s.certifies(state.Step.Object) && s.owner.Owns(state.Live)
}

// certifies reports whether certify writes an object: a Service or Secret of a Deployment whose certificates Remit issues.
func (s *run) certifies(obj *unstructured.Unstructured) bool {
	for _, o := range s.rendered.Objects {
		if o.Unstructured == obj {
			return o.Certified
		}
	}
	return false
}

// checkIdentities refuses Deployments that would run as a ServiceAccount with more permissions than the identity has.
func (s *run) checkIdentities(ctx context.Context) error {
	unchanged, err := s.runsUnchanged(ctx)
	if err != nil {
		return err
	}
	by := s.boundOfIdentities(ctx)
	by.Unchanged = unchanged
	err = deployment.CheckIdentities(s.rendered.CSV, by)
	var refused *deployment.IdentityError
	if errors.As(err, &refused) {
		s.findings.Refuse("Deployment "+s.ext.Spec.Namespace+"/"+refused.Deployment, refused)
		return nil
	}
	return err
}

// boundOfIdentities returns what bounds the ServiceAccounts of the install.
func (s *run) boundOfIdentities(ctx context.Context) deployment.Bound {
	return deployment.Bound{
		Account: s.identity, Made: func(name string) (time.Time, bool) { return s.madeAt(ctx, name) }, Owner: s.owner, RBAC: s.RBAC, Log: log.FromContext(ctx), Program: names.UserAgentExtension,
		Confirm: func(found []excess.Object) ([]excess.Object, error) {
			return s.confirmer.Exceeding(ctx, runAs(s.ext.UID), s.identity, found)
		},
	}
}

// checkToken returns the reason why a Secret with a token of a ServiceAccount must not be written, or nil.
func (s *run) checkToken(ctx context.Context, state execute.State) (problem, err error) {
	by := s.boundOfIdentities(ctx)
	by.Made = func(name string) (time.Time, bool) {
		if at, made := s.madeAt(ctx, name); made || s.isThere(ctx, name) {
			return at, made
		}
		return deployment.NotYet(), true
	}
	err = deployment.CheckToken(state.Step.Object, state.Live, by)
	if kit.Is[*deployment.IdentityError](err) {
		return err, nil
	}
	return nil, err
}

// isThere reports whether a ServiceAccount of the bundle exists, or may exist.
func (s *run) isThere(ctx context.Context, name string) bool {
	for _, st := range s.steps {
		if st.Object.GetKind() != "ServiceAccount" || st.Object.GetName() != name {
			continue
		}
		if state, isRead := s.states[st.Object]; isRead {
			return state.Live != nil
		}
		live, known, err := s.observe(ctx, st.Object)
		return err != nil || !known || live != nil
	}
	return true
}

// runAs returns the key with which the answers of the API server about the bindings of ServiceAccounts are cached. It does not
// begin with the UID, because a run that writes no Deployment does not ask again.
func runAs(extension types.UID) string { return "run as " + string(extension) }

// runsUnchanged reports whether no Deployment has to be written, apart from certificates.
func (s *run) runsUnchanged(ctx context.Context) (bool, error) {
	for _, st := range s.steps {
		if st.Object.GetKind() != "Deployment" {
			continue
		}
		if state, isRead := s.states[st.Object]; isRead {
			if !s.isWritten(state) {
				return false, nil
			}
			continue
		}
		if desired, err := s.isDesired(ctx, st.Object); err != nil || !desired {
			return false, err
		}
	}
	return true, nil
}

// madeAt returns when this install created a ServiceAccount.
func (s *run) madeAt(ctx context.Context, name string) (time.Time, bool) {
	for _, st := range s.steps {
		if st.Object.GetKind() != "ServiceAccount" || st.Object.GetName() != name {
			continue
		}
		if state, ok := s.states[st.Object]; ok && state.Live != nil && s.owner.Owns(state.Live) {
			return state.Live.GetCreationTimestamp().Time, true
		}
		live, _, err := s.observe(ctx, st.Object)
		if err == nil && live != nil && s.owner.Owns(live) {
			return live.GetCreationTimestamp().Time, true
		}
	}
	return time.Time{}, false
}
