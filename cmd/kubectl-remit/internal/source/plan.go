package source

import (
	"encoding/json"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

// PlanSteps are the steps that the plan's status shows. That is a display, which decides nothing; a plan
// that is too large to show its steps is an error.
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
			return nil, errNotShown(plan)
		}
		out = append(out, step.Step{Object: obj, Owner: ownerutil.Owner{
			Lineage: ownerutil.Lineage{Package: packages[shown.Resolving], Namespace: plan.Namespace}, CSV: shown.Resolving,
		}})
	}
	return out, nil
}

func errNotShown(plan *operatorsv1alpha1.InstallPlan) error {
	return fmt.Errorf("InstallPlan %s is too large to show its steps: run this for the bundle itself", plan.Name)
}
