package installplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/flow"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// refused is an error for what the report says. It is retried, at growing intervals, since no watch announces that a quota or
// a policy has changed, or RBAC that may not be read.
type refused struct {
	reason operatorsv1alpha1.InstallPlanConditionReason
	text   string
}

func (e *refused) Error() string { return e.text }

// preflightPlan says everything that the account lacks, at once, before the first write, and where
// somebody has to approve, before that too. It asks the cache, and the API server only about what is
// missing there and was not asked before: a plan that waits here costs no request.
func preflightPlan(ctx context.Context, s *run) (flow.Outcome, error) {
	needs, err := s.needs(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	s.findings = preflight.Examine(s.account.Key(), needs, s.holding)
	if s.findings.TooMuch != nil {
		return waitForAccount(preflight.AsAccountError(s.account, s.findings.TooMuch))
	}
	s.findings = s.reconciler.confirmer.Confirm(ctx, s.key().String(), s.findings)
	s.findings.Begun = s.begun()
	if err := s.findings.NoteLeftOut(s.steps); err != nil {
		return flow.Outcome{}, err
	}
	if s.findings.Changes, err = s.changes(ctx); err != nil {
		return flow.Outcome{}, err
	}
	if err := s.refuseUnserved(ctx); err != nil {
		return flow.Outcome{}, err
	}
	s.unserved = s.findings.DeferUntilServed()
	if s.findings.Final() {
		s.publish(ctx)
		return flow.Outcome{}, &invalid{reasonFailed, errors.New(s.findings.Refusals())}
	}
	if s.plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval {
		s.publish(ctx)
		return flow.Done(), nil
	}
	enrol, err := s.enrolment()
	switch {
	case err != nil:
		return flow.Outcome{}, err
	case s.unserved:
		s.publish(ctx)
		return flow.Wait(string(reasonFailed), s.findings.Refusals()), nil
	case !s.findings.Empty():
		s.publish(ctx)
		return s.lacks(enrol)
	case enrol != "":
		s.publish(ctx)
		return flow.Wait(reasonCheckFailed, enrol), nil
	}
	s.setFindings()
	if len(s.findings.Unknown) > 0 {
		s.publish(ctx)
	}
	return flow.Next(), nil
}

// needs are those of the steps, of what is read to compare, and of the upgrades.
func (s *run) needs(ctx context.Context) ([]preflight.Need, error) {
	steps, err := preflight.NeedsOf(s.steps, s.reconciler.RBAC.RulesOf, s.servedAlready)
	if err != nil {
		return nil, err
	}
	readings, err := s.readings(ctx)
	if err != nil {
		return nil, err
	}
	upgrades, err := s.successions(ctx)
	if err != nil {
		return nil, err
	}
	return s.identities(ctx).Resolve(slices.Concat(steps, readings, upgrades))
}

// lacks waits for the change of RBAC that wakes the plan, where there will be one.
func (s *run) lacks(more string) (flow.Outcome, error) {
	text := strings.TrimSuffix(s.findings.Refusals()+"\n"+more, "\n")
	if s.findings.Blind {
		return flow.Outcome{}, &refused{reasonPermissions, text}
	}
	return flow.Wait(reasonPermissions, text), nil
}

// eachUpgrade calls f for each version of the plan that takes the place of one that is there, with the step that brings it.
func (s *run) eachUpgrade(ctx context.Context, f func(from *operatorsv1alpha1.ClusterServiceVersion, to step.Step) error) error {
	for _, pin := range s.content.Pins {
		i := slices.IndexFunc(s.steps, func(st step.Step) bool { return st.IsCSV() && st.Owner.CSV == pin.Bundle })
		if pin.Replaces == "" || i < 0 {
			continue
		}
		from := &operatorsv1alpha1.ClusterServiceVersion{}
		err := s.reconciler.Client.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: pin.Replaces}, from)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = f(from, s.steps[i])
		}
		if err != nil {
			return fmt.Errorf("compare ClusterServiceVersion %q with %q: %w", pin.Bundle, pin.Replaces, err)
		}
	}
	return nil
}

// changes compares the versions of the plan with those whose place they take.
func (s *run) changes(ctx context.Context) (out []preflight.Change, err error) {
	err = s.eachUpgrade(ctx, func(from *operatorsv1alpha1.ClusterServiceVersion, st step.Step) error {
		to := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(st.Object.Object, to); err != nil {
			return err
		}
		out = append(out, preflight.ChangesOf(from, to, s.plan.Namespace, s.targets)...)
		return nil
	})
	return out, err
}

func (s *run) holding(namespace string) rbac.Permissions {
	return s.reconciler.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
}

// identities are those that the plan's operators might make something run as.
func (s *run) identities(ctx context.Context) preflight.Identities {
	return preflight.Identities{Account: s.account.Key(), RBAC: s.reconciler.RBAC, In: func(namespace string) ([]string, error) {
		return scoped.ServiceAccounts(ctx, s.reconciler.Client, namespace)
	}}
}

// begun says whether this plan has written something in an earlier run.
func (s *run) begun() bool {
	return slices.ContainsFunc(s.plan.Status.Plan, func(st *operatorsv1alpha1.Step) bool {
		return st.Status == operatorsv1alpha1.StepStatusCreated
	})
}

// enrolment says, for people, which of Remit's programs may not act as the account; "" where both may.
// The OperatorGroup says what to apply.
func (s *run) enrolment() (string, error) {
	missing, err := s.reconciler.Enrolment.Missing(s.reconciler.RBAC, s.account)
	if err != nil || len(missing) == 0 {
		return "", err
	}
	return fmt.Sprintf("ServiceAccount %s is not enrolled: %s may not request a token for it; the condition AccountUsable of the "+
		"namespace's OperatorGroup says what to apply", s.account.Key(), strings.Join(missing, " and ")), nil
}

// refuseUnserved refuses objects of kinds that neither Kubernetes nor a CustomResourceDefinition of the cluster or of the plan
// serves. CustomResourceDefinitions are looked up in the cache; for kinds of Kubernetes' groups discovery is asked, and
// the answer remembered. The rest of the plan is looked at all the same.
func (s *run) refuseUnserved(ctx context.Context) error {
	var crds *apiextensionsv1.CustomResourceDefinitionList
	planned, unserved, unseen := execute.PlannedKinds(s.steps), map[schema.GroupVersionKind]bool{}, 0
	for _, st := range s.steps {
		gvk := st.Object.GroupVersionKind()
		switch {
		case planned[gvk.GroupKind()]:
			continue
		case unserved[gvk]:
		case len(unserved) >= kinds.MaxUnserved:
			unseen++
			continue
		default:
			isServed, err := s.isServed(ctx, gvk, &crds)
			if err != nil {
				return err
			}
			if isServed {
				continue
			}
			unserved[gvk] = true
		}
		s.refuse(st, &execute.UnservedError{GVK: gvk, Name: st.Object.GetName()})
	}
	if unseen > 0 {
		s.findings.Notes = append(s.findings.Notes, fmt.Sprintf("%d kinds are not served: whether those of %d more objects are is not looked at",
			kinds.MaxUnserved, unseen))
	}
	return nil
}

// isServed lists the CustomResourceDefinitions once.
func (s *run) isServed(ctx context.Context, gvk schema.GroupVersionKind, crds **apiextensionsv1.CustomResourceDefinitionList) (bool, error) {
	if s.reconciler.Client.Scheme().IsGroupRegistered(gvk.Group) {
		return s.reconciler.unserved.Serves(s.reconciler.Client.RESTMapper(), gvk, "")
	}
	if *crds == nil {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := s.reconciler.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		*crds = list
	}
	return slices.ContainsFunc((*crds).Items, func(crd apiextensionsv1.CustomResourceDefinition) bool { return serves(&crd, gvk) }), nil
}

func serves(crd *apiextensionsv1.CustomResourceDefinition, gvk schema.GroupVersionKind) bool {
	return crd.Spec.Group == gvk.Group && crd.Spec.Names.Kind == gvk.Kind &&
		slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Name == gvk.Version })
}

// tryPlan adds what is in the way of the objects, and what the API server says of each as a dry run:
// admission, quota, schema; and what of the objects that exist would not fit a new schema. All of it is said at
// once, before the first write.
func tryPlan(ctx context.Context, s *run) (flow.Outcome, error) {
	for _, state := range s.states {
		if state.Problem != nil {
			s.refuse(state.Step, state.Problem)
		}
	}
	if err := s.trySteps(ctx); err != nil {
		return waitForAccount(err)
	}
	if err := s.tryDeployments(ctx); err != nil {
		return waitForAccount(err)
	}
	if err := s.tryExisting(ctx); err != nil {
		return waitForAccount(err)
	}
	s.notePruned()
	if err := s.findings.NoteLeftOut(s.steps); err != nil {
		return flow.Outcome{}, err
	}
	s.tried = true
	s.publish(ctx)
	switch {
	case s.findings.Clear():
		return flow.Next(), nil
	case s.findings.Final():
		return flow.Outcome{}, &invalid{reasonFailed, errors.New(s.findings.Refusals())}
	case !s.findings.Empty():
		return s.lacks("")
	case s.onlyUnserved():
		return flow.Wait(string(reasonFailed), s.findings.Refusals()), nil
	}
	return flow.Outcome{}, &refused{reasonFailed, s.findings.Refusals()}
}

// notePruned tells the steps what was removed from their objects.
func (s *run) notePruned() {
	for i := range s.steps {
		s.steps[i].Pruned = s.executor.Pruned.Of(s.steps[i].Object)
	}
}

// refuse notes what is in the way of a step.
func (s *run) refuse(st step.Step, why error) { s.findings.Refuse(apply.Describe(st.Object), why) }

// onlyUnserved says that nothing but kinds is missing: their CustomResourceDefinitions wake the plan.
func (s *run) onlyUnserved() bool {
	return !slices.ContainsFunc(s.findings.Refused, func(f preflight.Refusal) bool { return !f.Unserved })
}

func (s *run) trySteps(ctx context.Context) error {
	for _, state := range execute.Tryable(s.states) {
		answer := s.executor.DryRun(ctx, state)
		if apierrors.IsForbidden(answer) && (s.isLeftOver(ctx, state) || s.handsOver(state)) {
			continue
		}
		final, err := s.findings.AddDryRun(apply.Describe(state.Step.Object), answer)
		if err != nil {
			return err
		}
		if final {
			at := slices.IndexFunc(s.steps, func(st step.Step) bool { return st.Object == state.Step.Object })
			s.setStep(at, operatorsv1alpha1.StepStatusNotCreated)
		}
	}
	return nil
}

// isLeftOver reports whether a step's object belonged to a ClusterServiceVersion that was deleted, and refuses the step if so:
// the garbage collector is about to remove the object, and no permission is missing to create it afterwards.
func (s *run) isLeftOver(ctx context.Context, state execute.State) bool {
	if state.Live == nil || !state.Step.Owner.Owns(state.Live) || len(state.Live.GetOwnerReferences()) == 0 {
		return false
	}
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if s.reconciler.Client.List(ctx, csvs, client.InNamespace(s.plan.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return false
	}
	for _, ref := range state.Live.GetOwnerReferences() {
		exists := slices.ContainsFunc(csvs.Items, func(csv operatorsv1alpha1.ClusterServiceVersion) bool { return csv.UID == ref.UID })
		if ref.Kind != operatorsv1alpha1.ClusterServiceVersionKind || exists {
			return false
		}
	}
	s.refuse(state.Step, fmt.Errorf("it belongs to ClusterServiceVersion %s, which was deleted: the install continues when the garbage collector has removed it",
		state.Live.GetOwnerReferences()[0].Name))
	return true
}

// handsOver looks whether a refusal can be about a change of owners, for which some clusters ask for the
// right to delete the object, and if so reports that right as missing.
func (s *run) handsOver(state execute.State) bool {
	if !s.executor.ChangesOwners(state) {
		return false
	}
	report := preflight.Examine(s.account.Key(), []preflight.Need{preflight.HandOver(state.Step)}, s.holding)
	for i := range report.Findings {
		report.Findings[i].Source = preflight.SourceDryRun
	}
	s.findings.Findings = append(s.findings.Findings, report.Findings...)
	return !report.Empty()
}
