package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Succession is a version that takes the place of another.
type Succession struct {
	// From is the version that is installed.
	From *operatorsv1alpha1.ClusterServiceVersion
	// To is the step of the ClusterServiceVersion that replaces it, Steps are all of the plan.
	To      step.Step
	Steps   []step.Step
	Targets []string
	// HandsOver says of a step's object whether it exists, belongs to an earlier version, and the cluster lets only those change
	// that who may delete the object.
	HandsOver func(step.Step) bool
}

// Needs are what the upgrade needs beyond what the new version needs by itself: objects that both have change their owner, and
// what only the old version has is removed once the new one runs. Objects of the old version in its own namespace are
// garbage-collected with it.
func (s Succession) Needs() ([]Need, error) {
	older, err := s.older()
	if err != nil {
		return nil, err
	}
	needs := []Need{request(older.Object, fmt.Sprintf("remove ClusterServiceVersion %s/%s, whose place %s takes",
		older.Owner.Namespace, s.From.Name, s.To.Owner.CSV), "delete")}
	objs, err := build.OperatorRBAC(s.From, older.Owner, s.Targets)
	if err != nil {
		return nil, err
	}
	for _, obj := range objs {
		if st := (step.Step{Object: obj, Owner: older.Owner}); removedByUs(st) {
			needs = append(needs, removal(st))
		}
	}
	if needs, err = s.uncalled(older, needs); err != nil {
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

// older is the old version as a step of the new one's lineage.
func (s Succession) older() (step.Step, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.From)
	if err != nil {
		return step.Step{}, fmt.Errorf("encode ClusterServiceVersion %q: %w", s.From.Name, err)
	}
	out := step.Step{Object: &unstructured.Unstructured{Object: content}, Owner: s.To.Owner, Install: s.To.Install}
	out.Owner.CSV, out.Owner.UID = s.From.Name, s.From.UID
	out.Object.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	return out, nil
}

// uncalled adds the removal of the webhooks and APIs by which the old version is called.
func (s Succession) uncalled(older step.Step, needs []Need) ([]Need, error) {
	called, err := calledBy(older, plannedScopes(s.Steps))
	if err != nil {
		return nil, err
	}
	for _, n := range called.needs {
		if removes := len(n.Rules) == 1 && slices.Equal(n.Rules[0].Verbs, []string{"delete"}); removes && !n.Later {
			needs = append(needs, Need{Namespace: n.Namespace, Rules: n.Rules, Object: n.Object, Cause: n.Cause})
		}
	}
	return needs, nil
}

// Belongs says whether an object that exists belongs to a ClusterServiceVersion of another name.
func Belongs(live client.Object, toAnother string) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind && ref.Name != toAnother
	})
}
