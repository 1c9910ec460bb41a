package clusterextension

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// skipIfSettled compares the cached objects with the marks of the pass. It stops the run if there is nothing to write:
// the extension is settled, or waits for an object to become available.
func skipIfSettled(ctx context.Context, s *run) (outcome, error) {
	s.pass = s.memory.passFor(s.key(), s.hash)
	if err := s.watch(ctx); err != nil {
		return outcome{}, err
	}
	if s.due = nil; !s.pass.tried {
		return proceed(), nil
	}
	for _, phase := range s.rendered.Phases() {
		if err := s.findDue(ctx, phase); err != nil {
			return outcome{}, err
		}
		if len(s.due) > 0 || s.mustCertify(phase) {
			return proceed(), nil
		}
		if why, err := s.await(ctx, phase); err != nil || why != "" {
			return s.unavailable(ctx, why, err)
		}
	}
	if !s.pass.completed {
		return proceed(), nil
	}
	return s.settled(ctx)
}

// findDue adds the steps of a phase whose objects are not in the desired state.
func (s *run) findDue(ctx context.Context, phase render.Phase) error {
	for _, st := range s.stepsIn(phase) {
		if s.certifies(st.Object) {
			if err := s.noticeEdit(ctx, st.Object); err != nil {
				return err
			}
			continue
		}
		desired, err := s.isDesired(ctx, st.Object)
		if err != nil {
			return err
		}
		if !desired {
			s.due = append(s.due, st)
		}
	}
	return nil
}

func (s *run) stepsIn(phase render.Phase) []step.Step {
	var out []step.Step
	for i, o := range s.rendered.Objects {
		if o.Phase == phase {
			out = append(out, s.steps[i])
		}
	}
	return out
}

// applyPhases writes the objects that are not in the desired state, one phase after the other. Each phase waits until the objects
// of earlier phases are available.
func applyPhases(ctx context.Context, s *run) (outcome, error) {
	if err := s.begin(ctx); err != nil {
		return outcome{}, err
	}
	for _, phase := range s.rendered.Phases() {
		if s.mustCertify(phase) {
			if err := s.certify(ctx); err != nil {
				return s.failed(err)
			}
		}
		for _, st := range s.stepsIn(phase) {
			if err := s.applyOne(ctx, st); err != nil {
				return s.failed(fmt.Errorf("apply %s: %w", apply.Describe(st.Object), err))
			}
		}
		if err := s.watch(ctx); err != nil {
			return outcome{}, err
		}
		if why, err := s.await(ctx, phase); err != nil || why != "" {
			return s.unavailable(ctx, why, err)
		}
	}
	if err := s.convert(ctx); err != nil {
		return s.failed(err)
	}
	return proceed(), nil
}

// begin saves the list of objects that are about to be written, so that they can be found after a restart.
func (s *run) begin(ctx context.Context) error {
	if err := s.delayDeletion(ctx); err != nil {
		return err
	}
	if s.pass.begun.IsZero() {
		s.pass.begun = s.Clock.Now()
	}
	s.setInventory(true)
	if len(s.ext.Status.Inventory) == len(s.saved.Status.Inventory) && s.begunBefore() {
		return nil
	}
	s.setAuthorized()
	s.setProgressing(rolling(s.aboutRollout("")))
	saved, err := s.save(ctx)
	if err == nil && !saved {
		return errStale
	}
	return err
}

// begunBefore reports whether the saved status shows that the install has begun.
func (s *run) begunBefore() bool {
	was := s.savedCondition(olmv1.TypeProgressing)
	return was != nil && (was.Reason == olmv1.ReasonRollingOut || was.Reason == olmv1.ReasonSucceeded) || s.exceededBefore()
}

func (s *run) aboutRollout(why string) string {
	text := fmt.Sprintf("Rolling out bundle %q, version %s", s.bundleName(), s.bundle.CSV.Spec.Version)
	if why != "" {
		text += ": " + why
	}
	return text
}

// applyOne writes one object, unless it is in the desired state. It skips the objects that certify writes.
func (s *run) applyOne(ctx context.Context, st step.Step) error {
	if s.certifies(st.Object) {
		return nil
	}
	if desired, err := s.isDesired(ctx, st.Object); desired || err != nil {
		return err
	}
	state, err := s.stateOf(ctx, st)
	if err != nil {
		return err
	}
	if err := s.checkOwner(ctx, state.Live, st.Object); err != nil {
		return err
	}
	sent, edits := s.keepEdits(state)
	done, err := s.executor.Do(ctx, sent)
	if err != nil {
		return err
	}
	state.Live = done.Live
	s.states[st.Object] = state
	s.mark(st, done.Live, done.Status == operatorsv1alpha1.StepStatusCreated).edits = edits
	log.FromContext(ctx).V(1).Info("Applied", "object", apply.Describe(st.Object), "identity", s.identity.String(), "result", done.Status)
	return nil
}

// checkOwner reads the extension again if an object that was read from the API server lacks a desired owner reference: the
// garbage collector removes the references if the extension is deleted with --cascade=orphan. If they were restored, it would
// delete the objects. live is nil if the object does not exist.
func (s *run) checkOwner(ctx context.Context, live, desired *unstructured.Unstructured) error {
	if live == nil || !lacksOwner(live, desired) {
		return nil
	}
	return s.checkCurrent(ctx)
}

// lacksOwner reports whether an existing object lacks a desired owner reference.
func lacksOwner(live client.Object, desired *unstructured.Unstructured) bool {
	return slices.ContainsFunc(desired.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return !deployment.OwnedBy(live, ref.UID) })
}

// mark records that an object is in the desired state.
func (s *run) mark(st step.Step, live *unstructured.Unstructured, isWritten bool) *mark {
	key := apply.Describe(st.Object)
	is := markOf(live, s.hashes[st.Object], s.Clock.Now())
	is.follows(s.pass.marks[key], isWritten)
	s.pass.marks[key] = is
	return is
}

// stateOf returns the state of an object. It reads the object if this run has not done so yet.
func (s *run) stateOf(ctx context.Context, st step.Step) (execute.State, error) {
	if state, ok := s.states[st.Object]; ok {
		return state, state.Problem
	}
	states, err := s.executor.Gather(ctx, withBindings([]step.Step{st}, s.steps))
	if err != nil {
		return execute.State{}, err
	}
	if err := s.examine(ctx, states); err != nil {
		return execute.State{}, err
	}
	return s.states[st.Object], s.states[st.Object].Problem
}

// failed converts a write error into an outcome if an immediate retry would not help.
func (s *run) failed(err error) (outcome, error) {
	switch {
	case preflight.IsPermanent(err):
		return blocked(s.aboutBundle(err)), nil
	case execute.Occupies(err), preflight.AtAdmission(err) != nil: // no watch reports when it would be accepted
		s.wakeAfter(s.memory.nextDelay(s.key()))
		return waiting(s.aboutBundle(err)), nil
	}
	return outcome{}, err
}

// await describes what the objects of a phase still need to become available, or returns "" if they are available.
func (s *run) await(ctx context.Context, phase render.Phase) (string, error) {
	for _, st := range s.stepsIn(phase) {
		if s.certifies(st.Object) {
			continue
		}
		why, known, err := s.probe(ctx, st.Object)
		if !known && err == nil {
			s.available = unobserved(why)
		}
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// unavailable returns the outcome of a run whose objects are not all available. A version that was available before stays
// installed.
func (s *run) unavailable(ctx context.Context, why string, err error) (outcome, error) {
	if err != nil {
		return outcome{}, err
	}
	if s.available == nil {
		s.available = &metav1.Condition{Status: metav1.ConditionFalse, Reason: olmv1.ReasonRollingOut, Message: status.Text(why)}
	}
	s.wakeForCertificates()
	if !s.pass.completed {
		return s.withDeadline(rolling(s.aboutRollout(why))), nil
	}
	return s.success(ctx)
}

// settled returns the outcome of a run that has nothing to do.
func (s *run) settled(ctx context.Context) (outcome, error) {
	s.available = &metav1.Condition{Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded, Message: allAvailable}
	if text := s.aboutPaused(); text != "" {
		s.available = &metav1.Condition{Status: metav1.ConditionFalse, Reason: olmv1.ReasonRollingOut, Message: status.Text(text)}
	}
	s.setInventory(false)
	s.rememberProbed()
	s.wakeForCertificates()
	return s.success(ctx)
}

// success returns the outcome of a run whose objects are in the desired state, except those whose restoration is
// paused. It also sets the version, because an earlier run may have failed to save it.
func (s *run) success(ctx context.Context) (outcome, error) {
	unkept := s.keepContent(ctx)
	s.setVersion()
	parts := []string{"Desired state reached"}
	if text := s.aboutPaused(); text != "" {
		parts = []string{"Desired state was reached before, but " + text}
	}
	if s.resolved.Kept != "" {
		parts = append(parts, s.resolved.Kept)
	}
	parts = append(parts, s.aboutEdits()...)
	parts = append(parts, s.unnoticed()...)
	kept, err := s.aboutKeptCRDs(ctx)
	if err != nil {
		return outcome{}, err
	}
	parts = append(parts, kept...)
	if unkept != "" {
		parts = append(parts, unkept)
	}
	return succeeded(strings.Join(parts, "; ")), nil
}

// reportOmissions lists what the bundle contains but the install does not, and the warnings about the bundle's files, in an Event.
// The report contains them as well, but there is none if no permissions were missing.
func (s *run) reportOmissions() {
	left, err := preflight.LeftOutText(s.steps)
	if err != nil || left == "" { // decoding fails only for ClusterServiceVersions, which are not among the steps
		return
	}
	s.Recorder.Eventf(s.ext, nil, corev1.EventTypeNormal, "PartsOmitted", "Install", "%s", status.Note(left))
}

// setVersion records in the status which version is installed.
func (s *run) setVersion() {
	now := olmv1.BundleMetadata{Name: s.bundleName(), Version: s.version()}
	if was := s.ext.Status.Install; was == nil || was.Bundle != now {
		s.ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: now}
		s.event("Installed", fmt.Sprintf("Installed bundle %q, version %s", now.Name, now.Version))
		s.reportOmissions()
	}
	s.findings.Changes = nil // the changes describe the upgrade, which is complete
	s.memory.Change(s.key(), func(is *remembered) { is.previous = nil })
}
