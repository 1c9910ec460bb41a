package installplan

import (
	"context"
	"errors"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
)

// published identifies the last report. where describes its location or, if the ConfigMap cannot be written, the
// reason.
type published struct {
	hash  string
	where message.Text
}

func (s *run) key() types.NamespacedName { return client.ObjectKeyFromObject(s.plan) }

// publish sets the plan's conditions and writes the complete report to a ConfigMap. It creates no ConfigMap for a plan that has
// never had findings. If the findings have been resolved, it overwrites the report with an empty one. The plan does not wait
// until the empty report is written, because no condition refers to an empty report; awaitReport records the error.
func (s *run) publish(ctx context.Context) {
	s.findings.WarnAboutExistingRoles(s.reconciler.RBAC.RulesOf)
	clean := s.findings.Clear() && len(s.findings.Unknown) == 0
	switch {
	case clean && !s.hasReported():
	case clean:
		write := s.reportWriter(ctx)
		s.emptying.Go(func() error {
			_, err := write()
			return err
		})
	default:
		s.findings.Details, s.unpublished = s.reportWriter(ctx)()
	}
	s.setFindings()
}

// awaitReport waits until publish has written an empty report.
func (s *run) awaitReport() { s.unpublished = errors.Join(s.unpublished, s.emptying.Wait()) }

func (s *run) hasReported() bool {
	if s.reconciler.memory.Get(s.key()).report.hash != "" {
		return true
	}
	for _, c := range s.saved.Status.Conditions {
		if c.Type == typePermissionsMissing && c.Status != corev1.ConditionFalse || c.Type == typeObjectsRefused && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// reportWriter returns a function that writes the report with the current findings. The function returns a sentence
// about the report's location, or about why the report could not be written. After an error, the caller should retry. The
// function does not use s, so that it can run while the plan is executed.
func (s *run) reportWriter(ctx context.Context) func() (where message.Text, err error) {
	files, err := s.findings.Files()
	if err != nil {
		return func() (message.Text, error) { return "", err }
	}
	r, key := s.reconciler, s.key()
	report := kit.Report{
		Namespace: s.plan.Namespace, Name: names.ReportPrefix + s.plan.Name, Files: files, Proofs: r.Proofs,
		Owner: ownerutil.Reference(operatorsv1alpha1.InstallPlanAPIVersion, operatorsv1alpha1.InstallPlanKind, s.plan.Name, s.plan.UID),
	}
	hash := ownerutil.Hash(files[preflight.FileReport], files[preflight.FileGrant])
	return func() (message.Text, error) {
		if known := r.memory.Get(key).report; known.hash == hash {
			return known.where, nil
		}
		where := message.Sprintf("The full report is in %s (%s, %s).", apply.Describe(report.Object()), preflight.FileReport, preflight.FileGrant)
		// The controller identity writes the report, because an account that is missing permissions may not be able to.
		err := report.Write(ctx, r.Live, r.Client)
		if apply.IsCollision(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			where = message.Sprintf("The full report could not be written: %v", err)
			err = nil
		}
		if err != nil {
			return "", err
		}
		r.memory.Change(key, func(is *remembered) { is.report = published{hash, where} })
		return where, nil
	}
}
