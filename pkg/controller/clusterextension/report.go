package clusterextension

import (
	"context"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// maxReportName bounds the length of the extension's name within the name of its report.
const maxReportName = 200

// ReportName returns the name of the ConfigMap, in Remit's namespace, with the report about a ClusterExtension.
func ReportName(extension string) string {
	return names.ReportPrefix + "clusterextension-" + shortName(extension)
}

// shortName returns the part of the name of a ConfigMap that stands for an extension.
func shortName(extension string) string {
	if len(extension) > maxReportName {
		// The part of a name after a dot must not begin with "-".
		extension = strings.TrimRight(extension[:maxReportName], ".") + "-" + ownerutil.Hash(extension)
	}
	return extension
}

// publish writes the complete report to a ConfigMap. It writes none for an extension that has never had findings. When the
// findings are resolved, it overwrites the report with an empty one.
func (s *run) publish(ctx context.Context) {
	s.findings.WarnAboutExistingRoles(s.RBAC.RulesOf)
	s.findings.Details, s.unpublished = s.writeReport(ctx)
}

func (s *run) writeReport(ctx context.Context) (where message.Text, err error) {
	files, err := s.findings.Files()
	if err != nil {
		return "", err
	}
	if s.unusable != nil && s.unusable.Reason == scoped.AccountNotEnrolled {
		files[FileEnrollment] = string(s.enrollment())
	}
	report := kit.Report{
		Namespace: s.Namespace, Name: ReportName(s.ext.Name), Owner: s.owner.Reference(), Files: files, Proofs: s.Proofs,
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		parts = append(parts, name, files[name])
	}
	hash := ownerutil.Hash(parts...)
	known := s.memory.Get(s.key()).report
	if left := known.retryAt.Sub(s.Clock.Now()); known.hash == hash && (known.retryAt.IsZero() || left > 0) {
		s.wakeAfter(left)
		return known.where, nil
	}
	now := published{hash: hash, where: message.Sprintf("The full report is in %s (%s, %s).", apply.Describe(report.Object()), preflight.FileReport, preflight.FileGrant)}
	// The controller identity writes the report, because an identity that is missing permissions may not be able to.
	err = report.Write(ctx, s.Live, s.Client)
	switch {
	case apply.IsCollision(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		now.where = message.Sprintf("The full report could not be written: %v", err)
		now.delay = longer(known.delay)
		now.retryAt = s.Clock.Now().Add(now.delay)
		s.wakeAfter(now.delay)
	case err != nil:
		return "", err
	}
	s.memory.Change(s.key(), func(is *remembered) { is.report = now })
	return now.where, nil
}

// hasReported reports whether there is a report of an earlier run.
func (s *run) hasReported() bool {
	if s.memory.Get(s.key()).report.hash != "" {
		return true
	}
	was := s.savedCondition(typeAuthorized)
	return was != nil && was.Status == "False"
}
