package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Succession is the replacement of an installed version by a new one.
type Succession struct {
	// From is the installed version.
	From *operatorsv1alpha1.ClusterServiceVersion
	// To is the step of the new ClusterServiceVersion; Steps are all steps of the plan.
	To      step.Step
	Steps   []step.Step
	Targets []string
	// Owned reports whether an object that is removed with the installed version exists and belongs to its lineage. The names of
	// these objects follow from the spec of the installed version, in which its authors can name objects of other owners; the step's
	// object may only be a reference.
	Owned func(step.Step) bool
	// HandsOver reports whether a step takes over an existing object from an earlier version, in a cluster where
	// changing an object's owners requires permission to delete it.
	HandsOver func(step.Step) bool
}

// Needs returns the permissions that the upgrade requires in addition to those of the new version: permission to change
// the owners of objects that both versions have and, once the new version runs, to remove objects that only the old
// version has. Objects of the old version in its own namespace are garbage-collected and need no permission. Of the objects
// outside, only those that Owned reports are removed.
func (s Succession) Needs() ([]Need, error) {
	older, err := s.older()
	if err != nil {
		return nil, err
	}
	needs := []Need{hooks.Request(older.Object, fmt.Sprintf("remove ClusterServiceVersion %s/%s, which %s replaces",
		older.Owner.Namespace, s.From.Name, s.To.Owner.CSV), "delete")}
	outside, err := s.outside(older)
	if err != nil {
		return nil, err
	}
	for _, st := range outside {
		if s.Owned(st) {
			needs = append(needs, hooks.Removal(st.Object, st.Owner))
		}
	}
	for _, st := range s.Steps {
		own := st.Owner.CSV == s.To.Owner.CSV && st.Object.GetNamespace() == st.Owner.Namespace
		if own && !st.IsCSV() && s.HandsOver(st) {
			needs = append(needs, HandOver(st))
		}
	}
	return needs, nil
}

// older returns the installed ClusterServiceVersion as a step with the lineage and the install of the new one.
func (s Succession) older() (step.Step, error) {
	obj, err := apply.Object(s.From)
	if err != nil {
		return step.Step{}, fmt.Errorf("ClusterServiceVersion %q: %w", s.From.Name, err)
	}
	out := step.Step{Object: obj, Owner: s.To.Owner, Install: s.To.Install}
	out.Owner.CSV, out.Owner.UID = s.From.Name, s.From.UID
	out.Object.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	return out, nil
}

// outside returns the objects of the old version that its namespace's garbage collector does not remove: roles and bindings in other
// namespaces and in the whole cluster, webhook configurations and APIServices. It omits roles and bindings if their number exceeds
// what the csv controller writes.
func (s Succession) outside(older step.Step) ([]step.Step, error) {
	var out []step.Step
	if build.CheckScopes(s.From, older.Owner.Namespace, s.Targets) == nil {
		objs, err := build.OperatorRBAC(s.From, older.Owner, s.Targets)
		if err != nil {
			return nil, err
		}
		for _, obj := range objs {
			out = append(out, step.Step{Object: obj, Owner: older.Owner})
		}
	}
	serving, err := Supporting(older, func(kind, namespace, name string) bool {
		ref := apply.Reference(rbacv1.SchemeGroupVersion.WithKind(kind), namespace, name)
		return !s.Owned(step.Step{Object: ref, Owner: older.Owner})
	})
	isInside := func(st step.Step) bool { return st.Object.GetNamespace() == older.Owner.Namespace }
	return slices.DeleteFunc(append(out, serving...), isInside), err
}

// BelongsToOther reports whether an existing object is owned by a ClusterServiceVersion with a name other than csv.
func BelongsToOther(live client.Object, csv string) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind && ref.Name != csv
	})
}
