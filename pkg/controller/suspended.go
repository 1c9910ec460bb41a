package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// journaled is a manager whose controllers record what they work on.
type journaled struct {
	ctrl.Manager

	journal *journal.Journal
}

// Journal implements fairqueue.Journaled.
func (m journaled) Journal() *journal.Journal { return m.journal }

// journalOf returns the journal of a manager, or nil.
func journalOf(mgr ctrl.Manager) *journal.Journal {
	if m, ok := mgr.(journaled); ok {
		return m.journal
	}
	return nil
}

// kindsOf contains the kinds of the objects that the controllers work on, by the name of the controller.
func kindsOf() map[string]schema.GroupVersionKind {
	csv := operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind)
	return map[string]schema.GroupVersionKind{
		"catalogsource":     operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind),
		"packagemanifest":   operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind),
		"subscription":      operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind),
		"installplan":       operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.InstallPlanKind),
		"csv":               csv,
		"copiedcsv":         csv,
		"operatorgroup":     operatorsv1.GroupVersion.WithKind("OperatorGroup"),
		"operator":          corev1.SchemeGroupVersion.WithKind("Namespace"), // whose Operators are written together
		"olmconfig":         operatorsv1.GroupVersion.WithKind("OLMConfig"),
		"operatorcondition": operatorsv2.GroupVersion.WithKind("OperatorCondition"),
		"clusterextension":  olmv1.GroupVersion.WithKind("ClusterExtension"),
		"clustercatalog":    olmv1.GroupVersion.WithKind("ClusterCatalog"),
	}
}

// reporting returns a runnable that reports which namespaces wait because the program ended several times while it worked on them.
func reporting(recorder events.EventRecorder, j *journal.Journal) manager.RunnableFunc {
	return func(ctx context.Context) error {
		for _, s := range j.Suspended() {
			until := s.Until().UTC().Format(time.RFC3339)
			log.FromContext(ctx).Info("Suspending a namespace: the program ended several times while it worked on objects there",
				"namespace", s.Group, "object", s.Name, "ends", s.Ends, "alone", s.Alone, "until", until)
			if ref := referenceTo(s); ref != nil {
				recorder.Eventf(ref, nil, corev1.EventTypeWarning, "Suspended", "Reconcile", "%s", status.Note(fmt.Sprintf(
					"Remit's program ended %d times while it worked on objects of this namespace, %d of these times on no others: until %s, it continues with nothing in this namespace. "+
						"The object that began last is this one, which is not known to be the reason. If it, or what it refers to, is very large, make it smaller or delete it", s.Ends, s.Alone, until)))
			}
		}
		return nil
	}
}

// referenceTo returns a reference to the object that a suspect is, or nil.
func referenceTo(s journal.Suspect) *corev1.ObjectReference {
	controller, object, _ := strings.Cut(s.Name, "/")
	kind, ok := kindsOf()[controller]
	if !ok {
		return nil
	}
	namespace, name, isNamespaced := strings.Cut(object, "/")
	if !isNamespaced {
		namespace, name = "", object
	}
	return &corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: namespace, Name: name}
}
