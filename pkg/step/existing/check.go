package existing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
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

// Check validates the objects of a CustomResourceDefinition in one version.
type Check struct {
	// Version is the version in which the objects are read.
	Version string
	// before and after validate with the live and the new schema. before is nil if the live schema cannot be used.
	before, after *validator
}

// Bounds of the validation rules in both schemas: maxRules is their number, maxRuleBytes the length of all, and maxRule that of one.
// A rule needs 71 KiB and a millisecond to compile, and a costly one of 4 KiB half a second. The largest definition of the corpus
// has 258 rules of 23 KB, the longest of 800 bytes.
const maxRules, maxRuleBytes, maxRule = 600, 128 << 10, 4 << 10

// ruleText matches a rule in the JSON of a schema.
var ruleText = regexp.MustCompile(`"rule":"(?:[^"\\]|\\.)*"`)

// checkCost returns an error if the rules of the schemas take too much to compile.
func checkCost(schemas ...*apiextensionsv1.JSONSchemaProps) error {
	rules, total, longest := 0, 0, 0
	for _, schema := range schemas {
		data, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		for _, at := range ruleText.FindAllIndex(data, maxRules+1) {
			length := at[1] - at[0]
			rules, total, longest = rules+1, total+length, max(longest, length)
		}
	}
	if rules > maxRules || total > maxRuleBytes || longest > maxRule {
		return fmt.Errorf("the existing and the new schema have too many validation rules to compile them; at most %d are, of %d bytes in total and %d bytes each", maxRules, maxRuleBytes, maxRule)
	}
	return nil
}

// New returns a Check for a version that both definitions have. It returns an error if the new schema cannot be used, or if the
// rules of the schemas take too much to compile.
func New(live, want *apiextensionsv1.CustomResourceDefinition, version string) (*Check, error) {
	c := &Check{Version: version}
	err := checkCost(schemaOf(want, version), schemaOf(live, version))
	if err != nil {
		return nil, fmt.Errorf("schema of version %q of CustomResourceDefinition %s: %w", version, want.Name, err)
	}
	if c.after, err = newValidator(schemaOf(want, version)); err != nil {
		return nil, fmt.Errorf("schema of version %q of CustomResourceDefinition %s: %w", version, want.Name, err)
	}
	if before, err := newValidator(schemaOf(live, version)); err == nil {
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

// Violation is one way in which an object violates a schema. It does not contain values of the object.
type Violation struct {
	// Field is the path of the field; "" for the object as a whole.
	Field string
	// Kind is the type of violation, such as "Required value".
	Kind string
	// rule identifies the violated rule, because one field can violate several; it is "" for other violations.
	rule string
}

// Violations returns the object's violations of the new schema that are not also violations of the old schema, sorted
// by field. It does not modify the object.
func (c *Check) Violations(ctx context.Context, object map[string]any) []Violation {
	if isCostly(object, c.after.structural) {
		return []Violation{{Kind: tooCostly}}
	}
	now := c.after.violations(ctx, object)
	if len(now) == 0 || c.before == nil || isCostly(object, c.before.structural) {
		return now
	}
	before := c.before.violations(ctx, object)
	known := make(map[Violation]bool, len(before))
	for _, v := range before {
		known[v] = true
	}
	unruled := slices.ContainsFunc(before, func(v Violation) bool { return v.rule == "" })
	return slices.DeleteFunc(now, func(v Violation) bool {
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

func (v *validator) violations(ctx context.Context, object map[string]any) []Violation {
	obj := runtime.DeepCopyJSON(object)
	pruning.Prune(obj, v.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, v.structural)
	defaulting.Default(obj, v.structural)

	var out []Violation
	add := func(errs field.ErrorList, rule func(*field.Error) string) {
		for _, err := range errs {
			out = append(out, Violation{Field: fieldOf(err), Kind: err.Type.String(), rule: rule(err)})
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

func sorted(list []Violation) []Violation {
	slices.SortFunc(list, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.rule, b.rule))
	})
	return slices.Compact(list)
}
