package csv

import (
	"cmp"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Event reasons other than those of the CSV's transitions.
const (
	eventLeftBehind     = "LeftBehind"
	eventStopping       = "Stopping"
	eventFinalizerStuck = "FinalizerStuck"
	eventRemoved        = "PermissionsRemoved"
	eventNarrowed       = "WebhookNarrowed"
)

// transitioned emits one event for a transition of a CSV, and counts upgrades. It emits none if the Deployments were just
// written: the event would have the same reason as the one that reports success, and client-go would send both as repetitions
// of one event.
func (r *Reconciler) transitioned(csv *operatorsv1alpha1.ClusterServiceVersion, t Transition) {
	if t.Reason == reasonReplaced {
		r.metrics.upgrades.Inc()
	}
	if t.Phase == phaseInstalling && t.Reason == reasonInstallSuccessful {
		return
	}
	kind := corev1.EventTypeNormal
	if t.Phase == phaseFailed {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(csv, nil, kind, string(t.Reason), "Reconcile", "%s", status.Note(cmp.Or(t.Detail, t.Message)))
}

// warnEscalation emits an event if the operator gets permissions with which it can obtain others. For a CSV that a user created, it is
// the only warning; for other CSVs, the InstallPlan and the Subscription have warned before.
func (r *Reconciler) warnEscalation(csv *operatorsv1alpha1.ClusterServiceVersion) {
	var rules []rbacv1.PolicyRule
	for _, p := range bundle.Permissions(csv) {
		rules = append(append(rules, p.Namespaced...), p.Cluster...)
	}
	if verbs := rbac.Escalations(rules); len(verbs) > 0 {
		r.Recorder.Eventf(csv, nil, corev1.EventTypeWarning, preflight.EventEscalation, "Reconcile", "%s", status.Note(
			"the operator gets permissions with which it can obtain more permissions than its account has: "+lines(verbs)))
	}
}

// leftBehind reports the remaining objects of a deleted CSV and how to remove them. It emits an event on the CSV and,
// because the CSV's namespace may also be terminating, another event on each of these objects, which outlive the CSV.
func (r *Reconciler) leftBehind(csv *operatorsv1alpha1.ClusterServiceVersion, objs []client.Object, why string) {
	var commands []string
	for _, obj := range objs {
		command := r.command(obj)
		if isDeployment(obj) {
			command += " --cascade=foreground" // the conversion is reset once the Deployment, and therefore its last Pod, is deleted
		}
		commands = append(commands, command)
		r.Recorder.Eventf(obj, nil, corev1.EventTypeWarning, eventLeftBehind, "Finalize", "%s",
			status.Note("the object belonged to ClusterServiceVersion "+csv.Namespace+"/"+csv.Name+", which was deleted; to clean up, run: "+command))
	}
	r.Recorder.Eventf(csv, nil, corev1.EventTypeWarning, eventLeftBehind, "Finalize", "%s",
		status.Note("objects of the deleted ClusterServiceVersion remain ("+why+"); to clean up, run: "+lines(commands)))
}

// stuck reports how a user can remove the finalizer of a CSV if neither the account nor the controller identity is
// allowed to remove it.
func (r *Reconciler) stuck(csv *operatorsv1alpha1.ClusterServiceVersion) {
	r.Recorder.Eventf(csv, nil, corev1.EventTypeWarning, eventFinalizerStuck, "Finalize", "%s", status.Note(
		"cleanup is complete, but Remit is not allowed to remove the finalizer; to remove it, run: kubectl patch clusterserviceversion "+
			csv.Name+" -n "+csv.Namespace+` --type=merge -p '{"metadata":{"finalizers":null}}'`))
}
