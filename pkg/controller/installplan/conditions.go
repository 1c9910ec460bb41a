package installplan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// Condition types and reasons of InstallPlans. The contract defines Installed and the first two reasons; the
// others are specific to Remit.
const (
	typePermissionsMissing = operatorsv1alpha1.InstallPlanConditionType(names.ConditionPermissionsMissing)
	typeObjectsRefused     = operatorsv1alpha1.InstallPlanConditionType(names.ConditionObjectsRefused)
	typeWebhooksIncluded   = operatorsv1alpha1.InstallPlanConditionType(names.ConditionWebhooksIncluded)

	reasonCheckFailed   = operatorsv1alpha1.InstallPlanReasonInstallCheckFailed
	reasonFailed        = operatorsv1alpha1.InstallPlanReasonComponentFailed
	reasonInstalling    = operatorsv1alpha1.InstallPlanConditionReason(operatorsv1alpha1.InstallPlanPhaseInstalling)
	reasonWaitingForAPI = "WaitingForApi"
)

// maxShownManifests is the maximum total size of the manifests in the status of a plan. The status of a larger plan
// contains references to the manifests instead, because the whole list is sent again each time the plan is saved.
const maxShownManifests = 64 << 10

// report derives the plan's status from the outcome of the run. It returns err if the run should be retried.
func (s *run) report(out outcome, err error) error {
	st := &s.plan.Status
	var fatal *invalid
	var denied *refused
	switch {
	case errors.As(err, &fatal):
		st.Phase = operatorsv1alpha1.InstallPlanPhaseFailed
		s.setMessage(fatal.reason, message.Of(fatal))
		s.warnFailed(string(fatal.reason), message.Of(fatal))
		return nil
	case errors.As(err, &denied):
		s.setMessage(denied.reason, denied.text)
		return err
	case apierrors.IsConflict(err) && !apply.IsCollision(err):
		return err // a concurrent write is retried but not reported in the status
	case err != nil:
		s.setMessage(reasonFailed, message.Sprintf("retrying execution due to error: %v", err))
		return err
	case out.reason != "":
		s.setMessage(out.reason, out.message)
		return nil
	}
	if st.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval {
		st.Message = status.Text(preflight.HowToApprove(s.key()))
	}
	return nil
}

// setMessage reports why the plan is not complete.
func (s *run) setMessage(reason operatorsv1alpha1.InstallPlanConditionReason, text message.Text) {
	s.plan.Status.Message = status.Text(text)
	s.setInstalled(corev1.ConditionFalse, reason, text)
}

// describeInvalid describes what is invalid in a bundle. For unsupported kinds, it uses the wording of the contract.
func describeInvalid(err error) error {
	if kit.Is[*bundle.UnsupportedKindError](err) {
		return fmt.Errorf("the InstallPlan contains invalid data: %w", err)
	}
	return err
}

// setComplete emits no event: the event of the ClusterServiceVersion reports the result of the install.
func (s *run) setComplete(text message.Text) {
	st := &s.plan.Status
	st.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
	st.Message = ""
	s.setInstalled(corev1.ConditionTrue, "", text)
}

// setFindings sets the two conditions that report the preflight's findings.
func (s *run) setFindings() {
	f := s.findings
	warning := f.Escalation()
	s.warnEscalation(warning)
	switch undecided := f.Undecided(); {
	case s.unserved && s.plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval:
		s.setCondition(typePermissionsMissing, corev1.ConditionUnknown, names.ReasonNotTried, message.Lines(f.LaterText(), warning))
	case s.unserved:
		s.setCondition(typePermissionsMissing, corev1.ConditionUnknown, names.ReasonNotTried, "")
	case !f.Empty():
		s.setCondition(typePermissionsMissing, corev1.ConditionTrue, names.ReasonAccountLacksPermissions, f.Summary())
	case undecided != "":
		s.setCondition(typePermissionsMissing, corev1.ConditionUnknown, names.ReasonPermissionsUndecided, message.Lines(undecided, warning))
	default:
		s.setCondition(typePermissionsMissing, corev1.ConditionFalse, names.ReasonPermissionsHeld, message.Lines(warning, f.ChangedText()))
	}
	switch {
	case len(f.Refused) > 0:
		s.setCondition(typeObjectsRefused, corev1.ConditionTrue, f.RefusalReason(), f.RefusedText())
	case s.tried:
		s.setCondition(typeObjectsRefused, corev1.ConditionFalse, names.ReasonAcceptedByAPIServer, "")
	default:
		s.setCondition(typeObjectsRefused, corev1.ConditionUnknown, names.ReasonNotTried, "")
	}
}

// warnEscalation emits an event, unless the saved status contains the warning.
func (s *run) warnEscalation(warning message.Text) {
	if warning == "" || strings.Contains(s.saved.Status.GetCondition(typePermissionsMissing).Message, string(warning)) {
		return
	}
	s.reconciler.Recorder.Eventf(s.plan, nil, corev1.EventTypeWarning, preflight.EventEscalation, "Preflight", "%s", status.Note(warning))
}

func (s *run) setInstalled(value corev1.ConditionStatus, reason operatorsv1alpha1.InstallPlanConditionReason, text message.Text) {
	s.setCondition(operatorsv1alpha1.InstallPlanInstalled, value, reason, text)
}

// setCondition changes a condition in place. Its times change only if another field does.
func (s *run) setCondition(t operatorsv1alpha1.InstallPlanConditionType, value corev1.ConditionStatus,
	reason operatorsv1alpha1.InstallPlanConditionReason, text message.Text,
) {
	shown := status.Text(text)
	if was := s.plan.Status.GetCondition(t); was.Status == value && was.Reason == reason && was.Message == shown {
		return
	}
	now := s.now()
	s.plan.Status.SetCondition(operatorsv1alpha1.InstallPlanCondition{
		Type: t, Status: value, Reason: reason, Message: shown, LastUpdateTime: &now, LastTransitionTime: &now,
	})
}

// keepTimes restores the saved times of conditions that have not changed since they were saved, because a run may
// change a condition and then change it back.
func (s *run) keepTimes() {
	for i := range s.plan.Status.Conditions {
		c := &s.plan.Status.Conditions[i]
		was := s.saved.Status.GetCondition(c.Type)
		if was.Status != c.Status || was.LastTransitionTime == nil {
			continue
		}
		c.LastTransitionTime = was.LastTransitionTime.DeepCopy()
		if was.Reason == c.Reason && was.Message == c.Message {
			c.LastUpdateTime = was.LastUpdateTime.DeepCopy()
		}
	}
}

func (s *run) setStep(i int, value operatorsv1alpha1.StepStatus) {
	shown := s.plan.Status.Plan[i]
	// A step whose object is present may have been created by an earlier run of this plan.
	if shown.Status == operatorsv1alpha1.StepStatusCreated && value == operatorsv1alpha1.StepStatusPresent {
		return
	}
	shown.Status = value
}

// show writes the steps to the status, and keeps the statuses of steps that it already contains.
func (s *run) show(steps []step.Step) error {
	known := map[string]operatorsv1alpha1.StepStatus{}
	for _, st := range s.plan.Status.Plan {
		known[stepID(st)] = st.Status
	}
	plan := make([]*operatorsv1alpha1.Step, 0, len(steps))
	total := 0
	for _, st := range steps {
		shown, err := s.shown(st)
		if err != nil {
			return err
		}
		total += len(shown.Resource.Manifest)
		shown.Status = cmp.Or(known[stepID(shown)], shown.Status)
		plan = append(plan, shown)
	}
	if total > maxShownManifests {
		for _, shown := range plan {
			shown.Resource.Manifest = s.reference(shown)
		}
	}
	s.plan.Status.Plan = plan
	return nil
}

func stepID(s *operatorsv1alpha1.Step) string {
	return s.Resolving + "/" + s.Resource.Group + "/" + s.Resource.Kind + "/" + s.Resource.Name
}

func (s *run) shown(st step.Step) (*operatorsv1alpha1.Step, error) {
	manifest, err := json.Marshal(st.Object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode step: %w", err)
	}
	pin := s.content.Pins[0]
	for _, p := range s.content.Pins {
		if p.Bundle == st.Owner.CSV {
			pin = p
		}
	}
	gvk := st.Object.GroupVersionKind()
	return &operatorsv1alpha1.Step{
		Resolving: st.Owner.CSV,
		Status:    operatorsv1alpha1.StepStatusUnknown,
		Resource: operatorsv1alpha1.StepResource{
			CatalogSource:          pin.Catalog,
			CatalogSourceNamespace: pin.CatalogNamespace,
			Group:                  gvk.Group,
			Version:                gvk.Version,
			Kind:                   st.ShownKind(),
			Name:                   st.Object.GetName(),
			Manifest:               string(manifest),
		},
	}, nil
}

// reference returns a replacement for the manifest of a step in a status that would become too large. It identifies the
// pin that the manifest comes from and the command that shows the manifest.
func (s *run) reference(st *operatorsv1alpha1.Step) string {
	i := slices.IndexFunc(s.content.Pins, func(p resolver.Pin) bool { return p.Bundle == st.Resolving })
	if i < 0 {
		return "{}"
	}
	text, _ := json.Marshal(struct {
		resolver.Pin
		Show string `json:"show"`
	}{s.content.Pins[i], preflight.ShowCommand(s.key())}) // encoding strings cannot fail
	return string(text)
}

func (s *run) now() metav1.Time { return metav1.NewTime(s.reconciler.Clock.Now()) }

// warnFailed emits an event about the failure of the plan.
func (s *run) warnFailed(reason string, text message.Text) {
	s.reconciler.Recorder.Eventf(s.plan, nil, corev1.EventTypeWarning, reason, "Install", "%s", status.Note(text))
}

// warn reports the API server's warnings about writing a step, in an event about the step (OLM v0 contract).
func (s *run) warn(index int, warnings []string) {
	if len(warnings) == 0 {
		return
	}
	s.reconciler.warnings.Add(float64(len(warnings)))
	resource := s.plan.Status.Plan[index].Resource
	about := &corev1.ObjectReference{
		APIVersion: operatorsv1alpha1.InstallPlanAPIVersion, Kind: operatorsv1alpha1.InstallPlanKind, Namespace: s.plan.Namespace, Name: s.plan.Name,
		UID: s.plan.UID, FieldPath: fmt.Sprintf("status.plan[%d]", index),
	}
	text := fmt.Sprintf("the API server warns about %s %s: %s", resource.Kind, resource.Name, strings.Join(warnings, "; "))
	s.reconciler.Recorder.Eventf(about, nil, corev1.EventTypeWarning, eventWarnings, "Install", "%s", status.Note(text))
}

// eventWarnings is the reason of events that contain warnings from the API server.
const eventWarnings = "AppliedWithWarnings"

// Reasons of bundle lookups (OLM v0 contract).
const (
	reasonNotUnpacked = "BundleNotUnpacked"
	reasonLookupFails = "JobFailed"
)

// showLookups reports in the status the bundle whose content the plan waits for, and removes it when the content is
// available.
func (s *run) showLookups(err error) {
	waiting, ok := errors.AsType[*catalog.NotUnpacked](err)
	if !ok {
		s.plan.Status.BundleLookups = nil
		return
	}
	condition := operatorsv1alpha1.BundleLookupCondition{
		Type: operatorsv1alpha1.BundleLookupPending, Status: corev1.ConditionTrue, Reason: reasonNotUnpacked, Message: status.Text(message.Of(waiting)),
	}
	if waiting.Failure != nil {
		condition.Type, condition.Reason = operatorsv1alpha1.BundleLookupFailed, reasonLookupFails
	}
	now := s.now()
	condition.LastTransitionTime, condition.LastUpdateTime = &now, &now
	if old := s.plan.Status.BundleLookups; len(old) == 1 && old[0].Path == waiting.Image && len(old[0].Conditions) == 1 {
		was := old[0].Conditions[0]
		if was.Type == condition.Type && was.Message == condition.Message {
			return
		}
	}
	s.plan.Status.BundleLookups = []operatorsv1alpha1.BundleLookup{{
		Path: waiting.Image, Identifier: waiting.Bundle,
		CatalogSourceRef: &corev1.ObjectReference{Namespace: waiting.Catalog.Namespace, Name: waiting.Catalog.Name},
		Conditions:       []operatorsv1alpha1.BundleLookupCondition{condition},
	}}
}
