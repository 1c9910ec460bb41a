package csv

import (
	"unicode/utf8"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event reasons besides those of the CSV's transitions.
const (
	eventLeftBehind     = "LeftBehind"
	eventFinalizerStuck = "FinalizerStuck"
)

// maxNote is what the events API takes.
const maxNote = 1000

// transitioned says, once, where a CSV has gone.
func (r *Reconciler) transitioned(csv *operatorsv1alpha1.ClusterServiceVersion, t Transition) {
	kind := corev1.EventTypeNormal
	if t.Phase == phaseFailed {
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(csv, nil, kind, string(t.Reason), "Reconcile", "%s", note(t.Message))
}

// leftBehind says which objects of a deleted CSV remain, and how to remove them: on the CSV, whose
// namespace may be going too, and on each object, whose event outlives it.
func (r *Reconciler) leftBehind(csv *operatorsv1alpha1.ClusterServiceVersion, objs []client.Object, why string) {
	var commands []string
	for _, obj := range objs {
		command := r.command(obj)
		commands = append(commands, command)
		r.recorder.Eventf(obj, nil, corev1.EventTypeWarning, eventLeftBehind, "Finalize", "%s",
			note("belonged to ClusterServiceVersion "+csv.Namespace+"/"+csv.Name+", which is deleted: "+command))
	}
	r.recorder.Eventf(csv, nil, corev1.EventTypeWarning, eventLeftBehind, "Finalize", "%s",
		note("these objects remain ("+why+"): "+lines(commands)))
}

// stuck says how a person lets a CSV go whose finalizer neither the account nor self may remove.
func (r *Reconciler) stuck(csv *operatorsv1alpha1.ClusterServiceVersion) {
	r.recorder.Eventf(csv, nil, corev1.EventTypeWarning, eventFinalizerStuck, "Finalize",
		"nothing is left to be done, but Remit may not remove the finalizer: kubectl patch clusterserviceversion %s -n %s --type=merge -p '%s'",
		csv.Name, csv.Namespace, `{"metadata":{"finalizers":null}}`)
}

func note(text string) string {
	if len(text) <= maxNote {
		return text
	}
	text = text[:maxNote]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}
