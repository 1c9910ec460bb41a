package bundle

import (
	"errors"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkPermissionFields refuses unknown fields in the permissions of a ClusterServiceVersion. Unknown fields elsewhere
// are dropped, but in a rule, a misspelled field, such as resourceName, would make the rule broader than its author
// intended.
func checkPermissionFields(csv *unstructured.Unstructured) error {
	spec, ok, err := unstructured.NestedFieldNoCopy(csv.Object, "spec", "install", "spec")
	strategy, isMap := spec.(map[string]any)
	if err != nil || !ok || !isMap {
		return nil // ParseContent or ValidateCSV refuses an invalid strategy
	}
	parts := map[string]any{}
	for _, name := range []string{"permissions", "clusterPermissions"} {
		if value, ok := strategy[name]; ok {
			parts[name] = value
		}
	}
	if err := decodeStrictly("spec.install.spec.", parts, &operatorsv1alpha1.StrategyDetailsDeployment{}); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", csv.GetName(), err)
	}
	return nil
}

// decodeStrictly decodes fields into an object. The error lists the paths of the fields that the object's type does not have,
// each with the prefix.
func decodeStrictly(prefix string, from map[string]any, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, true)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if !isStrict {
		return err
	}
	var paths []string
	for _, problem := range strict.Errors() {
		text := strings.TrimSuffix(strings.TrimPrefix(problem.Error(), `unknown field "`), `"`)
		paths = append(paths, prefix+text)
	}
	return errors.New("unknown fields, possibly misspelled fields that restrict permissions: " + Named(paths))
}
