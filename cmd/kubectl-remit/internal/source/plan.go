package source

import (
	"encoding/json"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// ErrTooLarge says that a plan is too large to show its steps.
var ErrTooLarge = errors.New("too large to show its steps")

// PlanSteps are the steps that the plan's status shows. That is a display, which decides nothing; it is
// ErrTooLarge where the plan shows the names of its steps only.
func PlanSteps(plan *operatorsv1alpha1.InstallPlan) ([]step.Step, error) {
	content, err := resolver.Decode(plan.Namespace, plan.Name, plan.Annotations[names.AnnotationPlan])
	if err != nil {
		return nil, fmt.Errorf("InstallPlan %s: %w", plan.Name, err)
	}
	packages := map[string]string{}
	for _, pin := range content.Pins {
		packages[pin.Bundle] = pin.Package
	}
	if len(plan.Status.Plan) == 0 {
		return nil, fmt.Errorf("InstallPlan %s shows no steps yet: %s", plan.Name, plan.Status.Message)
	}
	var out []step.Step
	for _, shown := range plan.Status.Plan {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(shown.Resource.Manifest), &obj.Object); err != nil || obj.GetKind() == "" {
			return nil, fmt.Errorf("InstallPlan %s is %w", plan.Name, ErrTooLarge)
		}
		out = append(out, step.Step{Object: obj, Owner: ownerutil.Owner{
			Lineage: ownerutil.Lineage{Package: packages[shown.Resolving], Namespace: plan.Namespace}, CSV: shown.Resolving,
		}})
	}
	return out, nil
}
