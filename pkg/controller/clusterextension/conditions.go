package clusterextension

import (
	"cmp"
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

const typeAuthorized = olmv1.TypeAuthorized

// conclude derives the conditions from the outcome of the run. It returns the error if the run should be retried.
func (s *run) conclude(ctx context.Context, out outcome, err error) error {
	if s.checked && s.findings.Clear() && s.unusable == nil && s.hasReported() {
		s.publish(ctx)
	}
	var unusable *scoped.Error
	if errors.As(err, &unusable) {
		s.unusable = unusable
	}
	if err != nil {
		out = waiting(s.aboutBundle(err))
	}
	s.observeInstalled(ctx)
	s.setAuthorized()
	s.setInstalled(out)
	s.setProgressing(out)
	s.setAvailable()
	s.setDefaults()
	s.memory.Change(s.key(), func(is *remembered) {
		is.awaitsKinds, is.catalogs, is.images, is.accounts = s.awaitsKinds, s.used, s.images, s.accounts
		is.awaitsCatalogs = s.awaitsKinds || s.resolved.Bundle == nil
	})
	return errors.Join(err, s.unpublished)
}

// setAuthorized reports whether the identity can be used and has all permissions.
func (s *run) setAuthorized() {
	f := s.findings
	var undecided message.Text
	if s.checked {
		undecided = f.Undecided()
	}
	switch {
	case s.unusable != nil && f.Empty():
		s.setCondition(typeAuthorized, metav1.ConditionFalse, reasonOf(s.unusable), message.Lines(s.unusable.Text(), f.Summary()))
	case s.unusable != nil: // the RBAC at the end enrolls the identity and grants what is missing
		s.setCondition(typeAuthorized, metav1.ConditionFalse, reasonOf(s.unusable), message.Lines(message.Line(s.unusable.Message), s.unusable.Help, f.Summary()))
	case !s.checked:
		// The condition of an earlier run remains valid only for the same identity.
		if s.savedCondition(typeAuthorized) == nil || !equality.Semantic.DeepEqual(s.saved.Status.Identity, s.ext.Status.Identity) {
			s.setCondition(typeAuthorized, metav1.ConditionUnknown, olmv1.ReasonEvaluationIncomplete, "the permissions that the bundle requires are not known yet")
		}
	case f.TooMuch != nil:
		s.setCondition(typeAuthorized, metav1.ConditionUnknown, olmv1.ReasonEvaluationIncomplete, message.Of(f.TooMuch))
	case !f.Empty():
		s.setCondition(typeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, f.Summary())
	case undecided != "":
		s.setCondition(typeAuthorized, metav1.ConditionUnknown, olmv1.ReasonEvaluationIncomplete, message.Lines(undecided, f.Escalation()))
	default:
		s.setCondition(typeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded,
			message.Lines(message.Sprintf("%s has all permissions that the version needs.", s.identity), f.Escalation(), f.ChangedText()))
	}
}

func reasonOf(err *scoped.Error) string {
	switch err.Reason {
	case scoped.AccountNotEnrolled:
		return olmv1.ReasonNotEnrolled
	case scoped.NamespaceRecreated:
		return olmv1.ReasonNamespaceRecreated
	case scoped.AccountReserved:
		return olmv1.ReasonIdentityReserved
	}
	return olmv1.ReasonIdentityNotFound
}

// setInstalled reports the version in status.install, which setVersion sets.
func (s *run) setInstalled(out outcome) {
	if is := s.ext.Status.Install; is != nil {
		s.setCondition(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded, message.Sprintf("Installed bundle %q, version %s", is.Bundle.Name, is.Bundle.Version))
		return
	}
	reason := olmv1.ReasonAbsent
	if out.progressing.Reason != olmv1.ReasonRollingOut && out.progressing.Reason != olmv1.ReasonSucceeded {
		reason = olmv1.ReasonFailed
	}
	s.setCondition(olmv1.TypeInstalled, metav1.ConditionFalse, reason, "No bundle installed")
}

func (s *run) setProgressing(out outcome) {
	c := out.progressing
	s.setCondition(olmv1.TypeProgressing, cmp.Or(c.Status, metav1.ConditionTrue), cmp.Or(c.Reason, olmv1.ReasonSucceeded), cmp.Or(out.message, "Desired state reached"))
	if c.Reason == olmv1.ReasonSucceeded {
		s.memory.resetDelay(s.key())
	}
}

// setAvailable reports whether the objects of the installed version are available, if this is known.
func (s *run) setAvailable() {
	if s.available != nil {
		s.setCondition(olmv1.TypeAvailable, s.available.Status, s.available.Reason, message.Line(s.available.Message))
	}
}

// setDefaults adds the conditions that are still missing, with status Unknown.
func (s *run) setDefaults() {
	for _, kind := range []string{olmv1.TypeAvailable, olmv1.TypeDeprecated, olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated} {
		if meta.FindStatusCondition(s.ext.Status.Conditions, kind) != nil {
			continue
		}
		reason := olmv1.ReasonDeprecationStatusUnknown
		if kind == olmv1.TypeAvailable {
			reason = olmv1.ReasonAbsent
		}
		s.setCondition(kind, metav1.ConditionUnknown, reason, "")
	}
}

func (s *run) setCondition(kind string, value metav1.ConditionStatus, reason string, text message.Text) {
	meta.SetStatusCondition(&s.ext.Status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: status.Text(text), ObservedGeneration: s.ext.Generation, LastTransitionTime: s.now(),
	})
}

func (s *run) savedCondition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(s.saved.Status.Conditions, kind)
}

func (s *run) event(reason, text string) {
	s.Recorder.Eventf(s.ext, nil, corev1.EventTypeNormal, reason, "Install", "%s", status.Note(text))
}
