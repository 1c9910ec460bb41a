package controller

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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

// Group implements fairqueue.Journaled.
func (m journaled) Group(controller string, req reconcile.Request) string {
	switch {
	case controller == "clustercatalog": // administrators write them, and all ClusterExtensions need them
		return ""
	case controller == "clusterextension":
		return groupOfExtension(m.GetCache(), req)
	case req.Namespace == "" && isOfNamespaces(controller):
		return req.Name
	}
	return cmp.Or(req.Namespace, "/"+req.Name)
}

// groupOfExtension returns the namespace of a ClusterExtension, because who can create one can create a hundred with other names. The
// author check admits only authors who may use a ServiceAccount there.
func groupOfExtension(cached client.Reader, req reconcile.Request) string {
	ext := &olmv1.ClusterExtension{}
	if err := cached.Get(context.Background(), req.NamespacedName, ext, client.UnsafeDisableDeepCopy); err != nil || ext.Spec.Namespace == "" {
		return "/" + req.Name // it does not exist any longer
	}
	return ext.Spec.Namespace
}

// isOfNamespaces reports whether the requests of a controller are names of namespaces, whose objects it works on together.
func isOfNamespaces(controller string) bool {
	return controller == "subscription" || controller == "operator"
}

// journalOf returns the journal of a manager, or nil.
func journalOf(mgr ctrl.Manager) *journal.Journal {
	if m, ok := mgr.(journaled); ok {
		return m.journal
	}
	return nil
}

// kindsOf contains the kinds of the objects that the controllers work on, by the name of the controller. All are kinds of Remit's API,
// because a policy denies other events.
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
		"operator":          operatorsv1.GroupVersion.WithKind("OperatorGroup"), // of a namespace whose Operators are written together
		"olmconfig":         operatorsv1.GroupVersion.WithKind("OLMConfig"),
		"operatorcondition": operatorsv2.GroupVersion.WithKind("OperatorCondition"),
		"clusterextension":  olmv1.GroupVersion.WithKind("ClusterExtension"),
		"clustercatalog":    olmv1.GroupVersion.WithKind("ClusterCatalog"),
	}
}

// reporting returns a runnable that reports which namespaces wait because the program ended several times while it worked on them. It
// reads at most one object for each.
func reporting(recorder events.EventRecorder, live client.Reader, j *journal.Journal) manager.RunnableFunc {
	return func(ctx context.Context) error {
		for _, s := range j.Suspended() {
			until := s.Until.UTC().Format(time.RFC3339)
			log.FromContext(ctx).Info("Suspending a namespace: the program ended several times while it worked on objects there",
				"namespace", s.Group, "object", s.Name, "ends", s.Ends, "alone", s.Alone, "until", until)
			ref, about := referenceTo(s), "This object is the last on which work began, but is not known to be the reason."
			if ref.Name == "" {
				ref, about = anyOf(ctx, live, ref), "This object is one of the namespace, and is not known to be the reason."
			}
			if ref != nil {
				recorder.Eventf(ref, nil, corev1.EventTypeWarning, "Suspended", "Reconcile", "%s", status.Note(fmt.Sprintf(
					"Remit's program ended %d times while it worked on objects of this namespace, %d of these times on no others: until %s, it continues with nothing in this namespace. "+
						"%s If an object, or what it refers to, is very large, make it smaller or delete it", s.Ends, s.Alone, until, about)))
			}
		}
		return nil
	}
}

// referenceTo returns a reference to the object that a suspect is. If it is a namespace, the reference has no name. Its kind is then
// that of objects that the work was about.
func referenceTo(s journal.Suspect) *corev1.ObjectReference {
	controller, object, _ := strings.Cut(s.Name, "/")
	kind, isController := kindsOf()[controller]
	if !isController { // the reading of a registry or an image
		kind = kindsOf()["catalogsource"]
	}
	ref := &corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: object}
	switch namespace, name, isNamespaced := strings.Cut(object, "/"); {
	case isNamespaced:
		ref.Namespace, ref.Name = namespace, name
	case !isController || isOfNamespaces(controller):
		ref.Namespace, ref.Name = s.Group, ""
	}
	return ref
}

// anyOf returns a reference to any object of the kind and namespace of a reference, or nil if there is none.
func anyOf(ctx context.Context, live client.Reader, ref *corev1.ObjectReference) *corev1.ObjectReference {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind+"List"))
	if err := live.List(ctx, list, client.InNamespace(ref.Namespace), client.Limit(1)); err != nil || len(list.Items) == 0 {
		return nil // the log contains it
	}
	ref.Name, ref.UID = list.Items[0].Name, list.Items[0].UID
	return ref
}
