package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
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
	// HandsOver reports whether a step takes over an existing object from an earlier version, in a cluster where
	// changing an object's owners requires permission to delete it.
	HandsOver func(step.Step) bool
}

// Needs returns the permissions that the upgrade requires in addition to those of the new version: permission to change
// the owners of objects that both versions have and, once the new version runs, to remove objects that only the old
// version has. Objects of the old version in its own namespace are garbage-collected and need no permission.
func (s Succession) Needs() ([]Need, error) {
	older, err := s.older()
	if err != nil {
		return nil, err
	}
	needs := []Need{hooks.Request(older.Object, fmt.Sprintf("remove ClusterServiceVersion %s/%s, which %s replaces",
		older.Owner.Namespace, s.From.Name, s.To.Owner.CSV), "delete")}
	objs, err := build.OperatorRBAC(s.From, older.Owner, s.Targets)
	if err != nil {
		return nil, err
	}
	for _, obj := range objs {
		if st := (step.Step{Object: obj, Owner: older.Owner}); removedByController(st) {
			needs = append(needs, hooks.Removal(st.Object, st.Owner))
		}
	}
	if needs, err = s.addServingRemovals(older, needs); err != nil {
		return nil, err
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

// addServingRemovals adds the needs for removing the old version's webhooks and APIServices.
func (s Succession) addServingRemovals(older step.Step, needs []Need) ([]Need, error) {
	endpoints, err := endpointsOf(older, plannedScopes(s.Steps))
	if err != nil {
		return nil, err
	}
	for _, n := range endpoints.needs {
		if removes := len(n.Rules) == 1 && slices.Equal(n.Rules[0].Verbs, []string{"delete"}); removes && !n.Later {
			needs = append(needs, n)
		}
	}
	return needs, nil
}

// BelongsToOther reports whether an existing object is owned by a ClusterServiceVersion with a name other than csv.
func BelongsToOther(live client.Object, csv string) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind && ref.Name != csv
	})
}
