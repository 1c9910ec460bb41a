package installplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// refused is an error whose text is the message for users. The run is retried at increasing intervals, because no watch
// reports changes to quotas, policies, or RBAC that this program cannot read.
type refused struct {
	reason operatorsv1alpha1.InstallPlanConditionReason
	text   message.Text
}

func (e *refused) Error() string { return string(e.text) }

// Text returns the message for users.
func (e *refused) Text() message.Text { return e.text }

// preflightPlan reports all missing permissions at once, before the first write and before an approval that the plan
// requires. It reads the cache, and asks the API server only about missing permissions that it has not asked about yet,
// so that a waiting plan sends no requests.
func preflightPlan(ctx context.Context, s *run) (outcome, error) {
	needs, err := s.needs(ctx)
	if err != nil {
		return outcome{}, err
	}
	s.findings = preflight.Examine(s.account.Identity(), needs, s.permissionsIn)
	if s.findings.TooMuch != nil {
		return waitForAccount(preflight.AsAccountError(s.account.Identity(), s.findings.TooMuch))
	}
	s.findings = s.reconciler.confirmer.Confirm(ctx, s.key().String(), s.findings)
	s.findings.Begun = s.begun()
	if err := s.findings.NoteLeftOut(s.steps); err != nil {
		return outcome{}, err
	}
	if s.findings.Changes, err = s.changes(ctx); err != nil {
		return outcome{}, err
	}
	if err := s.refuseUnserved(ctx); err != nil {
		return outcome{}, err
	}
	s.unserved = s.findings.DeferUntilServed()
	if s.findings.Final() {
		s.publish(ctx)
		return outcome{}, &invalid{reasonFailed, s.findings.Refusals().Err()}
	}
	if s.plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval {
		s.publish(ctx)
		return stop(), nil
	}
	return s.proceedIfPermitted(ctx)
}

// proceedIfPermitted makes the run wait if a permission is missing, a kind is not served or a program is not enrolled.
func (s *run) proceedIfPermitted(ctx context.Context) (outcome, error) {
	enroll, err := s.enrollment()
	undecided := s.undecidedConversion()
	switch {
	case err != nil:
		return outcome{}, err
	case s.unserved:
		s.publish(ctx)
		return wait(reasonFailed, s.findings.Refusals()), nil
	case !s.findings.Empty():
		s.publish(ctx)
		return s.awaitPermissions(enroll)
	case enroll != "":
		s.publish(ctx)
		return wait(reasonCheckFailed, enroll), nil
	case undecided != "":
		s.publish(ctx)
		return outcome{}, &refused{reasonCheckFailed, undecided}
	}
	s.setFindings()
	if len(s.findings.Unknown) > 0 {
		s.publish(ctx)
	}
	return proceed(), nil
}

// undecidedConversion explains that it cannot be determined whether the account may set a conversion that the CRD account
// would write, or returns "". The API server would decide about the CRD account, so only this check bounds the conversion
// (docs/adr/0022).
func (s *run) undecidedConversion() message.Text {
	conversions := map[string]bool{}
	for _, st := range s.steps {
		if need, ok := preflight.ConversionNeed(st); ok && s.usesCRDAccount(st) {
			conversions[need.Cause] = true
		}
	}
	i := slices.IndexFunc(s.findings.Unknown, func(f preflight.Finding) bool { return conversions[f.Cause] })
	if i < 0 {
		return ""
	}
	why := preflight.Undecided(preflight.Report{Identity: s.account.Identity(), Unknown: s.findings.Unknown[i : i+1]})
	return message.Sprintf("%v; the installation's CRD account sets only conversions that the account may set", why)
}

// needs returns all permissions that the plan needs: for its steps, for reading existing objects, and for upgrades.
// An invalid config of a Subscription is refused.
func (s *run) needs(ctx context.Context) ([]preflight.Need, error) {
	steps, err := preflight.NeedsOf(s.steps, s.reconciler.RBAC.RulesOf, func(st step.Step) bool { return s.needsNoWrite(ctx, st) })
	if kit.Is[*preflight.ConfigError](err) {
		return nil, &refused{reasonCheckFailed, message.Of(err)} // no watch reports changes to the Subscription
	}
	if err != nil {
		return nil, err
	}
	schemas, err := s.schemaNeeds(ctx)
	if err != nil {
		return nil, err
	}
	upgrades, err := s.successions(ctx)
	if err != nil {
		return nil, err
	}
	return s.identities(ctx).Resolve(slices.Concat(steps, schemas, upgrades))
}

// awaitPermissions makes the run wait for an RBAC change, which wakes the plan. If RBAC cannot be read, it returns an
// error so that the run is retried.
func (s *run) awaitPermissions(more message.Text) (outcome, error) {
	text := message.Lines(s.findings.Refusals(), more)
	if s.findings.Blind {
		return outcome{}, &refused{names.ReasonAccountLacksPermissions, text}
	}
	return wait(names.ReasonAccountLacksPermissions, text), nil
}

// eachUpgrade calls f for each installed version that the plan replaces, with the step that writes the replacing
// version.
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

// changes lists the differences between the plan's versions and the installed versions that they replace.
func (s *run) changes(ctx context.Context) (out []preflight.Change, err error) {
	err = s.eachUpgrade(ctx, func(from *operatorsv1alpha1.ClusterServiceVersion, st step.Step) error {
		to := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := apply.Decode(st.Object, to); err != nil {
			return err
		}
		out = append(out, preflight.ChangesOf(from, to, s.plan.Namespace, s.targets)...)
		return nil
	})
	return out, err
}

func (s *run) permissionsIn(namespace string) rbac.Permissions {
	return s.reconciler.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
}

// identities finds the ServiceAccounts that the plan's operators could make workloads run as.
func (s *run) identities(ctx context.Context) preflight.Identities {
	return preflight.Identities{Account: s.account.Identity(), RBAC: s.reconciler.RBAC, Proofs: s.reconciler.Proofs, Home: s.plan.Namespace, In: func(namespace string) ([]string, error) {
		return scoped.ServiceAccounts(ctx, s.reconciler.Client, namespace)
	}}
}

// begun reports whether an earlier run of this plan has written anything.
func (s *run) begun() bool {
	return slices.ContainsFunc(s.plan.Status.Plan, func(st *operatorsv1alpha1.Step) bool {
		return st.Status == operatorsv1alpha1.StepStatusCreated
	})
}

// enrollment returns a message that names Remit's programs that are not allowed to act as the account, or "" if all of
// them are allowed to. The message refers to the OperatorGroup's status for the RBAC to apply.
func (s *run) enrollment() (message.Text, error) {
	missing, err := s.reconciler.Enrollment.Missing(s.reconciler.RBAC, s.account)
	if err != nil || len(missing) == 0 {
		return "", err
	}
	return message.Sprintf("ServiceAccount %s is not enrolled: %s cannot request a token for it; see the condition AccountUsable of the "+
		"namespace's OperatorGroup for the RBAC to apply", s.account.Key(), strings.Join(missing, " and ")), nil
}

// refuseUnserved refuses objects whose kind is not served by Kubernetes and not defined by a CustomResourceDefinition
// in the cluster or the plan. It looks up CustomResourceDefinitions in the cache, and the kinds of Kubernetes' own
// groups in discovery, whose response is cached. The other objects are still checked.
func (s *run) refuseUnserved(ctx context.Context) error {
	return s.findings.RefuseUnserved(s.steps, func(gvk schema.GroupVersionKind) (bool, error) {
		if s.reconciler.Client.Scheme().IsGroupRegistered(gvk.Group) {
			return s.reconciler.unserved.Serves(s.reconciler.Client.RESTMapper(), gvk, "")
		}
		return s.isDefined(ctx, func(d *apiextensionsv1.CustomResourceDefinition) bool { return crd.Defines(d, gvk) })
	})
}

// isDefined reports whether the cache contains a CustomResourceDefinition for which matches returns true. It lists the
// CustomResourceDefinitions once per reconcile.
func (s *run) isDefined(ctx context.Context, matches func(*apiextensionsv1.CustomResourceDefinition) bool) (bool, error) {
	if s.crds == nil {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := s.reconciler.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		s.crds = list
	}
	for i := range s.crds.Items {
		if matches(&s.crds.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

// tryPlan finds what prevents the plan from writing its objects: collisions, errors from a dry run of each object
// (admission, quota, schema), and existing objects that a new schema would reject. It reports all of these at once,
// before the first write.
func tryPlan(ctx context.Context, s *run) (outcome, error) {
	s.refuseProblems()
	if err := s.tryObjects(ctx); errors.Is(err, errTurn) {
		return s.awaitTurn(), nil
	} else if err != nil {
		return waitForAccount(err)
	}
	if err := s.trySupporting(ctx); err != nil {
		return waitForAccount(err)
	}
	if err := s.tryExisting(ctx); err != nil {
		return waitForAccount(err)
	}
	if err := s.tryTokens(ctx); err != nil {
		return outcome{}, err
	}
	if err := s.note(); err != nil {
		return outcome{}, err
	}
	s.tried = true
	s.publish(ctx)
	switch {
	case s.findings.Clear():
		return proceed(), nil
	case s.findings.Final():
		return outcome{}, &invalid{reasonFailed, s.findings.Refusals().Err()}
	case !s.findings.Empty():
		return s.awaitPermissions("")
	}
	awaitsKinds, err := s.awaitsKinds(ctx)
	switch {
	case err != nil:
		return outcome{}, err
	case awaitsKinds:
		return wait(reasonFailed, s.findings.Refusals()), nil
	}
	return outcome{}, &refused{reasonFailed, s.findings.Refusals()}
}

// tryObjects tries the objects of the steps, and the Deployments.
func (s *run) tryObjects(ctx context.Context) error {
	if err := s.trySteps(ctx); err != nil {
		return err
	}
	return s.tryDeployments(ctx)
}

// refuseProblems records the steps with a problem that prevents the plan.
func (s *run) refuseProblems() {
	for _, state := range s.states {
		if state.Problem != nil && !state.Skipped {
			s.refuse(state.Step, state.Problem)
		}
	}
}

// note records in the steps and the findings what is not written although nothing prevents the plan.
func (s *run) note() error {
	s.notePruned()
	s.noteOccupied()
	return s.findings.NoteLeftOut(s.steps)
}

// notePruned records in each step which fields were removed from its object.
func (s *run) notePruned() {
	for i := range s.steps {
		s.steps[i].Pruned = s.executor.Pruned.Of(s.steps[i].Object)
	}
}

// noteOccupied records in the steps why the operators get no permissions in a target namespace.
func (s *run) noteOccupied() {
	for i, state := range s.states {
		if state.Skipped && state.Problem != nil {
			s.noteOccupation(i)
		}
	}
}

func (s *run) noteOccupation(i int) {
	note := execute.Occupation(s.states[i].Step.Object.GetNamespace(), s.states[i].Problem)
	s.steps[i].Warnings = append(s.steps[i].Warnings, note.Error())
}

// occupation returns why an error means that a user of a target namespace occupies the object of a step, or nil. A refusal counts only if
// no permission in the namespace is missing or undecided (docs/adr/0087).
func (s *run) occupation(state execute.State, err error) error {
	namespace := state.Step.Object.GetNamespace()
	isUndecided := func(f preflight.Finding) bool { return f.Namespace == namespace }
	_, remains := errors.AsType[*execute.RemainingError](err)
	switch {
	case err == nil || remains || !execute.IsForTarget(state.Step.Object, state.Step.Owner):
		return nil
	case execute.Occupies(err):
		return err
	case execute.Disturbed(err) != nil:
		return execute.Disturbed(err)
	case !s.findings.Empty() || slices.ContainsFunc(s.findings.Unknown, isUndecided):
		return nil
	}
	return preflight.AtAdmission(err)
}

// refuse records an obstacle to a step.
func (s *run) refuse(st step.Step, why error) { s.findings.Refuse(apply.Describe(st.Object), why) }

// awaitsKinds reports whether unserved kinds are the only obstacle and no established CustomResourceDefinition defines
// them. In this case, an event for a CustomResourceDefinition that defines one of them wakes the plan. An established
// CustomResourceDefinition causes no further event, although discovery may not include its kind yet.
func (s *run) awaitsKinds(ctx context.Context) (bool, error) {
	if slices.ContainsFunc(s.findings.Refused, func(f preflight.Refusal) bool { return !f.Unserved }) {
		return false, nil
	}
	var kinds []schema.GroupVersionKind
	for _, state := range s.states {
		var unserved *execute.UnservedError
		if errors.As(state.Problem, &unserved) {
			kinds = append(kinds, unserved.GVK)
		}
	}
	isEstablished, err := s.isDefined(ctx, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return apihelpers.IsCRDConditionTrue(d, apiextensionsv1.Established) &&
			slices.ContainsFunc(kinds, func(gvk schema.GroupVersionKind) bool { return crd.Defines(d, gvk) })
	})
	return !isEstablished, err
}

func (s *run) trySteps(ctx context.Context) error {
	for _, state := range execute.Tryable(s.states) {
		if err := s.checkTurn(); err != nil {
			return err
		}
		answer := s.executor.DryRun(ctx, state)
		if apierrors.IsForbidden(answer) && (s.refuseLeftOver(ctx, state) || s.changesOwner(state)) {
			continue
		}
		at := slices.IndexFunc(s.steps, func(st step.Step) bool { return st.Object == state.Step.Object })
		if why := s.occupation(state, answer); why != nil {
			s.states[at].Problem = why
			continue
		}
		final, err := s.findings.AddDryRun(apply.Describe(state.Step.Object), answer)
		if err != nil {
			return err
		}
		if final {
			s.setStep(at, operatorsv1alpha1.StepStatusNotCreated)
		}
	}
	execute.SkipOccupied(s.states)
	return nil
}

// refuseLeftOver refuses a step whose object belongs to a deleted ClusterServiceVersion, and reports whether it did so.
// The garbage collector is about to remove the object, and creating it afterwards requires no further permission.
func (s *run) refuseLeftOver(ctx context.Context, state execute.State) bool {
	if state.Live == nil || !state.Step.Owner.Owns(state.Live) {
		return false
	}
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if s.reconciler.Client.List(ctx, csvs, client.InNamespace(s.plan.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return false // the caller reports the original refusal
	}
	owner := deletedOwner(state.Live, csvs.Items)
	if owner == "" {
		return false
	}
	s.refuse(state.Step, fmt.Errorf("the existing object belongs to ClusterServiceVersion %s, which was deleted; the install will resume when the garbage collector has removed the object", owner))
	return true
}

// deletedOwner returns the name of a ClusterServiceVersion that owned an object, or "" if the object has an owner that
// still exists or is not a ClusterServiceVersion.
func deletedOwner(obj metav1.Object, csvs []operatorsv1alpha1.ClusterServiceVersion) (name string) {
	for _, ref := range obj.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		exists := slices.ContainsFunc(csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool { return csv.UID == ref.UID })
		if err != nil || gv.Group != operatorsv1alpha1.GroupName || ref.Kind != operatorsv1alpha1.ClusterServiceVersionKind || exists {
			return ""
		}
		name = ref.Name
	}
	return name
}

// changesOwner reports whether a write may have been refused because it changes the object's owners, for which some
// clusters require the permission to delete the object. If the account is missing this permission, changesOwner adds it
// to the findings.
func (s *run) changesOwner(state execute.State) bool {
	if !s.executor.ChangesOwners(state) {
		return false
	}
	report := preflight.Examine(s.account.Identity(), []preflight.Need{preflight.HandOver(state.Step)}, s.permissionsIn)
	for i := range report.Findings {
		report.Findings[i].Source = preflight.SourceDryRun
	}
	s.findings.Findings = append(s.findings.Findings, report.Findings...)
	return !report.Empty()
}
