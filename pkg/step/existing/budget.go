package existing

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// maxSteps is the maximum number of values, of the object and of defaults, and of branches of the schema that the validation of one
// object examines. A value of an object takes up to 3 bytes, so that an object of 1.5 MB has at most 500,000 of them; but the API
// server has not seen the new schema, which can add a large default to each of them or validate it in hundreds of ways.
const maxSteps = 1_000_000

// propertiesPerStep is the number of properties of a schema that are looked up, for each object, in the time of one step.
const propertiesPerStep = 8

// tooCostly is the kind of the violation of an object whose validation would examine more than maxSteps.
const tooCostly = "Too costly to validate: use fewer list entries, defaults or alternatives"

// isCostly reports whether the validation of an object examines too much.
func isCostly(object map[string]any, schema *structural.Structural) bool {
	s := steps{left: maxSteps}
	s.visit(object, schema)
	return s.left < 0
}

// steps counts what a validation examines, until nothing is left.
type steps struct{ left int }

func (s *steps) visit(value any, schema *structural.Structural) {
	if s.left--; s.left < 0 || schema == nil {
		return
	}
	s.validate(value, schema.ValueValidation)
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			if s.visit(item, schema.Items); s.left < 0 {
				return
			}
		}
	case map[string]any:
		s.visitObject(value, schema)
	}
}

func (s *steps) visitObject(object map[string]any, schema *structural.Structural) {
	s.left -= len(schema.Properties) / propertiesPerStep // looking for defaults takes little
	for name := range schema.Properties {
		property := schema.Properties[name]
		if _, set := object[name]; !set && property.Default.Object != nil {
			s.visit(property.Default.Object, &property)
		}
	}
	for name, value := range object {
		if s.left < 0 {
			return
		}
		if property, known := schema.Properties[name]; known {
			s.visit(value, &property)
		} else if schema.AdditionalProperties != nil {
			s.visit(value, schema.AdditionalProperties.Structural)
		} else {
			s.visit(value, nil)
		}
	}
}

func (s *steps) validate(value any, rules *structural.ValueValidation) {
	if rules == nil || s.left < 0 {
		return
	}
	s.left -= len(rules.Enum) + len(rules.Required)
	for _, branches := range [][]structural.NestedValueValidation{rules.AllOf, rules.AnyOf, rules.OneOf} {
		for i := range branches {
			s.validateNested(value, &branches[i])
		}
	}
	s.validateNested(value, rules.Not)
}

func (s *steps) validateNested(value any, rules *structural.NestedValueValidation) {
	if rules == nil {
		return
	}
	if s.left--; s.left < 0 {
		return
	}
	s.validate(value, &rules.ValueValidation)
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			s.validateNested(item, rules.Items)
		}
	case map[string]any:
		for name, v := range value {
			if property, known := rules.Properties[name]; known {
				s.validateNested(v, &property)
			} else {
				s.validateNested(v, rules.AdditionalProperties)
			}
		}
	}
}
