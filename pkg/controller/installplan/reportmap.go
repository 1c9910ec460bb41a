package installplan

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
)

// published is a report that was written, or that may not be; then where is the reason.
type published struct{ hash, where string }

func (s *run) key() types.NamespacedName { return client.ObjectKeyFromObject(s.plan) }

// publish sets the plan's conditions and writes the complete report to a ConfigMap. A plan that never had findings has
// no ConfigMap; if a report becomes empty, an empty one is written.
func (s *run) publish(ctx context.Context) {
	s.findings.WarnAboutExistingRoles(s.reconciler.RBAC.RulesOf)
	if s.findings.Clear() && len(s.findings.Unknown) == 0 && !s.hasReported() {
		s.setFindings()
		return
	}
	s.findings.Details, s.unpublished = s.writeReport(ctx)
	s.setFindings()
}

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

// writeReport returns the location of the report, or why there is none; an error is to be retried.
func (s *run) writeReport(ctx context.Context) (where string, err error) {
	files, err := s.findings.Files()
	if err != nil {
		return "", err
	}
	desired := reportMap(s.plan.Namespace, s.plan.Name, s.plan.UID, files)
	hash := ownerutil.Hash(files[preflight.FileReport], files[preflight.FileGrant])
	known := s.reconciler.memory.Get(s.key()).report
	if known.hash == hash {
		return known.where, nil
	}
	where = fmt.Sprintf("The whole report is in %s (%s, %s).", apply.Describe(desired), preflight.FileReport, preflight.FileGrant)
	err = s.applyReport(ctx, desired)
	if apply.IsCollision(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		where = "The whole report could not be written: " + status.Text(status.OneLine(err.Error()))
		err = nil
	}
	if err != nil {
		return "", err
	}
	s.reconciler.memory.Change(s.key(), func(is *remembered) { is.report = published{hash, where} })
	return where, nil
}

// applyReport writes the ConfigMap as the controller identity, because an account without permissions could not
// (docs/adr/0007).
func (s *run) applyReport(ctx context.Context, desired *unstructured.Unstructured) error {
	live, err := apply.Live(ctx, s.reconciler.Live, desired)
	if err != nil {
		return err
	}
	_, _, err = apply.From(ctx, s.reconciler.Client, live, desired, reportOwner{s.reconciler.Proofs, s.plan.Name, s.plan.UID})
	return err
}

// reportOwner is the InstallPlan that a report is about.
type reportOwner struct {
	proofs ownerutil.Proofs
	name   string
	uid    types.UID
}

func (o reportOwner) holder() string { return "InstallPlan/" + string(o.uid) }

// Check implements apply.Owner.
func (o reportOwner) Check(live client.Object) error {
	owns := func(ref metav1.OwnerReference) bool { return ref.UID == o.uid }
	if !slices.ContainsFunc(live.GetOwnerReferences(), owns) {
		return fmt.Errorf("it does not belong to InstallPlan %q", o.name)
	}
	return o.proofs.Check(live, o.holder())
}

// Prove implements apply.Owner.
func (o reportOwner) Prove(desired, live *unstructured.Unstructured) error {
	return o.proofs.Sign(desired, o.holder(), live)
}

// reportMap returns the ConfigMap of a plan's report, which the plan owns.
func reportMap(namespace, plan string, uid types.UID, files map[string]string) *unstructured.Unstructured {
	data := map[string]any{}
	for name, text := range files {
		data[name] = text
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace(namespace)
	obj.SetName(names.ReportPrefix + plan)
	obj.SetOwnerReferences([]metav1.OwnerReference{ownerutil.Reference(operatorsv1alpha1.InstallPlanAPIVersion, operatorsv1alpha1.InstallPlanKind, plan, uid)})
	return obj
}
