package existing

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"

	"github.com/remit-olm/remit/pkg/step/crd"
)

// random generates schemas and objects that often, but not always, conflict.
type random struct{ *rand.Rand }

func (r random) oneIn(n int) bool { return r.IntN(n) == 0 }

// schema returns a random node of a schema; depth bounds the levels of nodes below it.
func (r random) schema(depth int) map[string]any {
	kinds := []string{"string", "integer", "object", "array", "map"}
	if depth == 0 {
		kinds = kinds[:2]
	}
	s := map[string]any{}
	switch kind := kinds[r.IntN(len(kinds))]; kind {
	case "object":
		s["type"] = "object"
		properties := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			if !r.oneIn(3) {
				properties[name] = r.schema(depth - 1)
			}
		}
		s["properties"] = properties
	case "map":
		s["type"], s["additionalProperties"] = "object", r.schema(depth-1)
	case "array":
		s["type"], s["items"] = "array", r.schema(depth-1)
	default:
		s["type"] = kind
	}
	for range r.IntN(3) {
		r.narrow(s)
	}
	return s
}

// narrow adds, changes or removes one random restriction of a node.
func (r random) narrow(s map[string]any) {
	n := r.IntN(4)
	words := map[string][]string{
		"string":  {"maxLength", "minLength", "pattern", "enum", "default", "nullable"},
		"integer": {"maximum", "minimum", "exclusiveMaximum", "multipleOf", "default", "nullable"},
		"object":  {"maxProperties", "minProperties", "required", "x-kubernetes-preserve-unknown-fields", "nullable", "property", "default", "not"},
		"array":   {"maxItems", "minItems", "nullable"},
	}[s["type"].(string)]
	word := words[r.IntN(len(words))]
	if r.oneIn(3) && word != "property" {
		delete(s, word)
		return
	}
	properties, _ := s["properties"].(map[string]any)
	name := string("abc"[r.IntN(3)])
	switch word {
	case "pattern":
		s[word] = []string{"^a", "b$", "."}[r.IntN(3)]
	case "enum":
		s[word] = []any{"a", "ab", "b"}[:1+r.IntN(3)]
	case "default":
		s[word] = map[string]any{"string": "ab", "integer": n, "object": map[string]any{}}[s["type"].(string)]
	case "nullable", "exclusiveMaximum", "x-kubernetes-preserve-unknown-fields":
		s[word] = true
	case "multipleOf":
		s[word] = n + 1
	case "not":
		s[word] = map[string]any{"required": []any{name}}
	case "required":
		s[word] = []any{name}
	case "property":
		switch {
		case properties == nil:
		case r.oneIn(2):
			delete(properties, name)
		default:
			properties[name] = r.schema(0)
		}
	default:
		s[word] = n
	}
}

// change calls narrow for a node or for a node below it.
func (r random) change(s map[string]any) {
	var below []map[string]any
	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := s[key].(map[string]any); ok {
			below = append(below, child)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range []string{"a", "b", "c"} {
		if child, ok := properties[name].(map[string]any); ok {
			below = append(below, child)
		}
	}
	if len(below) == 0 || r.oneIn(3) {
		r.narrow(s)
		return
	}
	r.change(below[r.IntN(len(below))])
}

// value returns a value that usually matches the schema.
func (r random) value(s map[string]any) any {
	child := func(key string) map[string]any { out, _ := s[key].(map[string]any); return out }
	switch {
	case s == nil || r.oneIn(20):
		return []any{"a", int64(2), nil, map[string]any{"a": "b"}}[r.IntN(4)]
	case s["type"] == "string":
		return []string{"", "a", "ab", "b", "abcd"}[r.IntN(5)]
	case s["type"] == "integer":
		return int64(r.IntN(5))
	case s["type"] == "array":
		out := []any{}
		for range r.IntN(4) {
			out = append(out, r.value(child("items")))
		}
		return out
	}
	out := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		if r.oneIn(3) {
			continue
		}
		below := child("additionalProperties")
		if properties := child("properties"); properties != nil {
			below, _ = properties[name].(map[string]any)
		}
		out[name] = r.value(below)
	}
	return out
}

// If package crd classifies a change as harmless, the new schema rejects no object that the old schema accepts.
func TestAHarmlessChangeRejectsNothing(t *testing.T) {
	r := random{rand.New(rand.NewPCG(5, 18))}
	text := func(v any) string {
		out, err := json.Marshal(v)
		require.NoError(t, err)
		return string(out)
	}
	harmless, strict, found := 0, 0, 0
	for range 1_000 {
		spec := r.schema(3)
		old := text(spec)
		for range 1 + r.IntN(3) {
			r.change(spec)
		}
		next := text(spec)
		live, want := things(t, old), things(t, next)
		stricter := len(crd.Stricter(live, want)) > 0
		check, err := compare(live, want)
		require.NoError(t, err)
		if errs, err := defaulting.ValidateDefaults(t.Context(), nil, check.after.structural, true, true); len(errs) > 0 || err != nil {
			continue // the API server would not accept the defaults
		}
		for range 10 {
			object := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x"}, "spec": r.value(spec)}
			before := check.before
			pruning.Prune(object, before.structural, true)
			defaulting.PruneNonNullableNullsWithoutDefaults(object, before.structural)
			defaulting.Default(object, before.structural)
			if len(before.violations(t.Context(), object)) > 0 {
				continue
			}
			broken := check.violations(t.Context(), object)
			if stricter {
				found += min(len(broken), 1)
				continue
			}
			require.Empty(t, broken, "%s\n%s\n%s", old, next, text(object))
		}
		if stricter {
			strict++
		} else {
			harmless++
		}
	}
	summary := fmt.Sprintf("%d harmless changes, %d others, which rejected %d objects", harmless, strict, found)
	t.Log(summary)
	require.Greater(t, harmless, 200, summary)
	require.Greater(t, found, 200, summary)
}
