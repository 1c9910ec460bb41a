package existing

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// check validates objects of a CustomResourceDefinition in one version. It runs in a process of its own (see process).
type check struct {
	// before and after validate with the live and the new schema. before is nil if the live schema cannot be used.
	before, after *validator
}

// newCheck returns an error if the new schema cannot be used.
func newCheck(live, want *apiextensionsv1.JSONSchemaProps) (*check, error) {
	after, err := newValidator(want)
	if err != nil {
		return nil, err
	}
	c := &check{after: after}
	if before, err := newValidator(live); err == nil {
		c.before = before
	}
	return c, nil
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for _, v := range crd.Spec.Versions {
		if v.Name == version && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return &apiextensionsv1.JSONSchemaProps{}
}

// violation is one way in which an object violates a schema. It does not contain values of the object.
type violation struct {
	// field is the path of the field; "" for the object as a whole.
	field string
	// kind is the type of violation, such as "Required value".
	kind string
	// rule identifies the violated rule, because one field can violate several; it is "" for other violations.
	rule string
}

// violations returns the object's violations of the new schema that are not also violations of the old schema, sorted
// by field. It does not modify the object.
func (c *check) violations(ctx context.Context, object map[string]any) []violation {
	now := c.after.violations(ctx, object)
	if len(now) == 0 || c.before == nil {
		return now
	}
	before := c.before.violations(ctx, object)
	known := make(map[violation]bool, len(before))
	for _, v := range before {
		known[v] = true
	}
	unruled := slices.ContainsFunc(before, func(v violation) bool { return v.rule == "" })
	return slices.DeleteFunc(now, func(v violation) bool {
		return known[v] || unruled && v.rule != "" // rules were not evaluated with the old schema
	})
}

// validator processes an object of a CustomResourceDefinition as the API server does.
type validator struct {
	structural *structural.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newValidator(props *apiextensionsv1.JSONSchemaProps) (*validator, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props.DeepCopy(), internal, nil); err != nil {
		return nil, err
	}
	v := &validator{}
	var err error
	if v.structural, err = structural.NewStructural(internal); err != nil {
		return nil, err
	}
	if v.schema, _, err = validation.NewSchemaValidator(internal); err != nil {
		return nil, err
	}
	v.rules = cel.NewValidator(v.structural, true, celconfig.PerCallLimit)
	return v, nil
}

func (v *validator) violations(ctx context.Context, object map[string]any) []violation {
	obj := runtime.DeepCopyJSON(object)
	pruning.Prune(obj, v.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, v.structural)
	defaulting.Default(obj, v.structural)

	var out []violation
	add := func(errs field.ErrorList, rule func(*field.Error) string) {
		for _, err := range errs {
			out = append(out, violation{field: fieldOf(err), kind: err.Type.String(), rule: rule(err)})
		}
	}
	none := func(*field.Error) string { return "" }
	add(validation.ValidateCustomResource(nil, obj, v.schema), none)
	add(objectmeta.Validate(nil, obj, v.structural, false), none)
	add(listtype.ValidateListSetsAndMaps(nil, v.structural, obj), none)
	if len(out) == 0 { // rules may rely on the schema, so only valid objects are checked, as in the API server
		errs, _ := v.rules.Validate(ctx, nil, v.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		add(slices.DeleteFunc(errs, isEvaluationError), func(err *field.Error) string { return err.Detail })
	}
	return sorted(out)
}

// isEvaluationError reports whether an error is about evaluating a rule rather than about the object. The API server has accepted
// the rule and may be newer than the library used here.
func isEvaluationError(err *field.Error) bool {
	return err.Type == field.ErrorTypeInternal ||
		strings.HasPrefix(err.Detail, "rule compile error: ") || strings.HasPrefix(err.Detail, "rule compiler initialization error: ")
}

// fieldOf returns the path of the field, or "" if the error concerns the object as a whole.
func fieldOf(err *field.Error) string {
	if err.Field == (*field.Path)(nil).String() {
		return ""
	}
	return err.Field
}

func sorted(list []violation) []violation {
	slices.SortFunc(list, func(a, b violation) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.kind, b.kind), cmp.Compare(a.rule, b.rule))
	})
	return slices.Compact(list)
}
