package crd

import (
	"cmp"
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

type props = apiextensionsv1.JSONSchemaProps

// admitsAll reports whether a version's new schema accepts every object that its old schema accepts.
func admitsAll(old, next *apiextensionsv1.CustomResourceValidation) bool {
	if old == nil || next == nil || old.OpenAPIV3Schema == nil || next.OpenAPIV3Schema == nil {
		return apiequality.Semantic.DeepEqual(old, next)
	}
	a, err := canonical(old.OpenAPIV3Schema)
	if err != nil {
		return false
	}
	b, err := canonical(next.OpenAPIV3Schema)
	return err == nil && admits(a, b, place{resource: true, free: true})
}

// canonical normalizes values that are stored as text, such as defaults, for comparison.
func canonical(in *props) (*props, error) {
	var tree any
	out := &props{}
	text, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err == nil {
		text, err = json.Marshal(tree)
	}
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	return out, err
}

// place is the position of a node in a schema.
type place struct {
	// resource is true for a complete resource: the root or an embedded resource.
	resource bool
	// free is true if enclosing nodes only require that each field matches its own schema. At such a place, a default
	// is harmless, because the API server validates it against that schema.
	free bool
}

// below returns the place of node, which is a child of next.
func (p place) below(next, node *props) place {
	bound := len(next.XValidations)+len(next.AllOf)+len(next.AnyOf)+len(next.OneOf) > 0 || next.Not != nil || next.MaxProperties != nil ||
		ptr.Deref(next.XListType, listAtomic) != listAtomic
	return place{resource: node.XEmbeddedResource, free: p.free && !bound}
}

const listAtomic = "atomic"

// admits reports whether all changes to a node of a schema, and to the nodes below it, are known to be harmless.
func admits(old, next *props, at place) bool {
	return withinBounds(old, next) &&
		unchangedOrRemoved(old, next) &&
		keepsRules(old, next) &&
		keepsDefault(old, next, at) &&
		admitsProperties(old, next, at) &&
		admitsItems(old, next, at) &&
		admitsValues(old, next, at) &&
		apiequality.Semantic.DeepEqual(rest(old), rest(next))
}

// withinBounds reports whether bounds are unchanged, relaxed or removed.
func withinBounds(old, next *props) bool {
	return upTo(old.Maximum, old.ExclusiveMaximum, next.Maximum, next.ExclusiveMaximum) &&
		upTo(negated(old.Minimum), old.ExclusiveMinimum, negated(next.Minimum), next.ExclusiveMinimum) &&
		atMost(old.MaxLength, next.MaxLength) && atLeast(old.MinLength, next.MinLength) &&
		atMost(old.MaxItems, next.MaxItems) && atLeast(old.MinItems, next.MinItems) &&
		atMost(old.MaxProperties, next.MaxProperties) && atLeast(old.MinProperties, next.MinProperties)
}

func atMost[T cmp.Ordered](old, next *T) bool  { return next == nil || old != nil && *old <= *next }
func atLeast[T cmp.Ordered](old, next *T) bool { return next == nil || old != nil && *old >= *next }

func upTo(old *float64, excludes bool, next *float64, nextExcludes bool) bool {
	return atMost(old, next) && (next == nil || !nextExcludes || excludes || *old < *next)
}

func negated(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return ptr.To(-*v)
}

// unchangedOrRemoved reports whether restrictions are unchanged or removed.
func unchangedOrRemoved(old, next *props) bool {
	return kept(old.Pattern, next.Pattern) && kept(old.Format, next.Format) && kept(old.MultipleOf, next.MultipleOf) &&
		kept(old.AllOf, next.AllOf) && kept(old.AnyOf, next.AnyOf) && kept(old.OneOf, next.OneOf) && kept(old.Not, next.Not) &&
		(next.Nullable || !old.Nullable)
}

func kept[T any](old, next T) bool {
	var none T
	return apiequality.Semantic.DeepEqual(next, none) || apiequality.Semantic.DeepEqual(next, old)
}

// keepsRules reports whether no required fields or rules were added and no enumerated values were removed.
func keepsRules(old, next *props) bool {
	if len(next.Enum) > 0 && len(old.Enum) == 0 {
		return false
	}
	values := setOf(next.Enum, func(v apiextensionsv1.JSON) string { return string(v.Raw) })
	for _, v := range old.Enum {
		if len(next.Enum) > 0 && !values[string(v.Raw)] {
			return false
		}
	}
	required := setOf(old.Required, func(name string) string { return name })
	for _, name := range next.Required {
		if !required[name] {
			return false
		}
	}
	rules := setOf(old.XValidations, ruleOf)
	for _, rule := range next.XValidations {
		if !rules[ruleOf(rule)] {
			return false
		}
	}
	return true
}

// setOf returns the keys of a list's entries. Lists of schemas can be long.
func setOf[T any, K comparable](list []T, key func(T) K) map[K]bool {
	out := make(map[K]bool, len(list))
	for _, entry := range list {
		out[key(entry)] = true
	}
	return out
}

// rule is the part of a validation rule that decides which objects it rejects.
type rule struct {
	text     string
	optional bool
}

func ruleOf(r apiextensionsv1.ValidationRule) rule {
	return rule{r.Rule, ptr.Deref(r.OptionalOldSelf, false)}
}

// keepsDefault reports whether a default is unchanged, or is a new default of a scalar at a free place. Removing a
// default can leave a required field without a value.
func keepsDefault(old, next *props, at place) bool {
	single := len(next.Properties) == 0 && next.Items == nil && next.AdditionalProperties == nil
	return apiequality.Semantic.DeepEqual(old.Default, next.Default) || next.Default != nil && single && at.free
}

// implied contains the fields that every resource has, whether or not its schema lists them. Fields of metadata are
// never pruned.
var implied = map[string]*props{
	"apiVersion": {Type: "string"},
	"kind":       {Type: "string"},
	"metadata":   {Type: "object", XPreserveUnknownFields: ptr.To(true)},
}

// admitsProperties reports whether all changes to properties are known to be harmless. Existing objects do not have
// values of new properties, because the API server pruned them, unless the old schema preserves unknown fields. They
// get such values only from defaults.
func admitsProperties(old, next *props, at place) bool {
	for name, p := range next.Properties {
		before, known := old.Properties[name]
		if always := implied[name]; at.resource && always != nil {
			if !known {
				before, known = *always, true
			}
			before.XPreserveUnknownFields, p.XPreserveUnknownFields = always.XPreserveUnknownFields, always.XPreserveUnknownFields
		}
		below := at.below(next, &p)
		if known && !admits(&before, &p, below) || !known && (keepsUnknown(old) || !keepsDefault(&props{}, &p, below)) {
			return false
		}
	}
	return keepsProperties(old, next, at)
}

// keepsProperties reports whether no property is removed. The values of a removed property would be pruned.
func keepsProperties(old, next *props, at place) bool {
	for name := range old.Properties {
		if _, known := next.Properties[name]; !known && (!at.resource || implied[name] == nil) {
			return false
		}
	}
	return true
}

func keepsUnknown(p *props) bool {
	return ptr.Deref(p.XPreserveUnknownFields, false) || p.AdditionalProperties != nil
}

func admitsItems(old, next *props, at place) bool {
	if old.Items == nil || next.Items == nil || old.Items.Schema == nil || next.Items.Schema == nil {
		return apiequality.Semantic.DeepEqual(old.Items, next.Items)
	}
	return admits(old.Items.Schema, next.Items.Schema, at.below(next, next.Items.Schema))
}

// admitsValues reports whether all changes to the schema of a map's values are known to be harmless.
func admitsValues(old, next *props, at place) bool {
	a, b := old.AdditionalProperties, next.AdditionalProperties
	if a == nil || b == nil || a.Schema == nil || b.Schema == nil {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	below := at.below(next, b.Schema)
	below.free = false // the API server ignores defaults here and does not validate them
	return admits(a.Schema, b.Schema, below)
}

// rest returns a node with only the fields that must not change: without descriptive fields, merge options, and fields
// that other functions compare.
func rest(in *props) props {
	out := *in
	out.Description, out.Title, out.Example, out.ExternalDocs, out.XMapType, out.Default = "", "", nil, nil, nil, nil
	out.Maximum, out.ExclusiveMaximum, out.Minimum, out.ExclusiveMinimum = nil, false, nil, false
	out.MaxLength, out.MinLength, out.MaxItems, out.MinItems, out.MaxProperties, out.MinProperties = nil, nil, nil, nil, nil, nil
	out.Pattern, out.Format, out.MultipleOf, out.Nullable = "", "", nil, false
	out.AllOf, out.AnyOf, out.OneOf, out.Not = nil, nil, nil, nil
	out.Enum, out.Required, out.XValidations = nil, nil, nil
	out.Properties, out.Items, out.AdditionalProperties = nil, nil, nil
	return out
}
