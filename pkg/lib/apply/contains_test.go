package apply

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestContains(t *testing.T) {
	for _, row := range []struct {
		name, live, want string
		contains         bool
	}{
		{"the same", "{a: 1}", "{a: 1}", true},
		{"an additional live field", "{a: 1, b: 2}", "{a: 1}", true},
		{"a missing live field", "{a: 1}", "{a: 1, b: 2}", false},
		{"another value", "{a: 1}", "{a: 2}", false},
		{"another type", "{a: '1'}", "{a: 1}", false},
		{"deep defaults", "{a: {b: [{c: 1, d: x}]}}", "{a: {b: [{c: 1}]}}", true},
		{"a longer list", "{a: [1, 2]}", "{a: [1]}", false},
		{"a list in another order", "{a: [2, 1]}", "{a: [1, 2]}", false},
		{"an empty list that the server drops", "{}", "{a: []}", true},
		{"an empty map that the server drops", "{}", "{a: {}}", true},
		{"a list with items instead of an empty list", "{a: [1]}", "{a: []}", false},
		{"a string instead of a map", "{a: x}", "{a: {}}", false},
		{"a map instead of a list", "{a: {}}", "{a: []}", false},
		{"a missing field instead of null", "{}", "{a: null}", true},
		{"a missing field instead of false", "{}", "{a: false}", false},
		{"numbers of two types", "{a: 1.0}", "{a: 1}", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var live, want any
			require.NoError(t, yaml.Unmarshal([]byte(row.live), &live))
			require.NoError(t, yaml.Unmarshal([]byte(row.want), &want))
			require.Equal(t, row.contains, Contains(live, want))
		})
	}
	for _, n := range []any{int(1), int32(1), int64(1), float64(1), json.Number("1")} {
		require.True(t, Contains(n, int64(1)), "%T", n)
		require.False(t, Contains(n, int64(2)), "%T", n)
	}
	require.False(t, Contains(json.Number("x"), int64(0)))
}

func TestComparesRulesExactly(t *testing.T) {
	const want = "{metadata: {name: r}, rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}"
	for live, has := range map[string]bool{
		"{metadata: {name: r, uid: u}, rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}":             true,
		"{metadata: {name: r}, rules: [{verbs: [get], apiGroups: [''], resources: [pods], resourceNames: [x]}]}": false,
		"{metadata: {name: r}, rules: [{verbs: [get, list], apiGroups: [''], resources: [pods]}]}":               false,
		"{metadata: {name: r}, rules: []}": false,
	} {
		var l, w map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(live), &l))
		require.NoError(t, yaml.Unmarshal([]byte(want), &w))
		require.Equal(t, has, Has(l, w), live)
		require.True(t, Has(l, map[string]any{}), "want has no rules")
	}
}

func TestSurplusFieldsAreThoseNoLongerDesired(t *testing.T) {
	const deployment = `{"f:spec":{"f:template":{"f:spec":{"f:nodeSelector":{},"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:env":{}}}}}}}`
	const service = `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`
	for _, row := range []struct {
		name, manager, fields, want string
		surplus                     bool
	}{
		{"a key of a map", names.FieldManager, `{"f:data":{"f:a":{},"f:b":{}}}`, "data: {a: x}", true},
		{"all keys desired", names.FieldManager, `{"f:data":{"f:a":{}}}`, "data: {a: x, b: y}", false},
		{"a key that another manager owns", "kubectl", `{"f:data":{"f:b":{}}}`, "data: {a: x}", false},
		{"a whole field", names.FieldManager, deployment, "spec: {template: {spec: {containers: [{name: c, env: []}]}}}", true},
		{"a field of a list item", names.FieldManager, deployment, "spec: {template: {spec: {nodeSelector: {}, containers: [{name: c}]}}}", true},
		{"an item of a list", names.FieldManager, deployment, "spec: {template: {spec: {nodeSelector: {}, containers: [{name: d, env: []}]}}}", true},
		{"all fields desired", names.FieldManager, deployment, "spec: {template: {spec: {nodeSelector: {a: b}, containers: [{name: d}, {name: c, env: []}]}}}", false},
		{"an item with a defaulted key", names.FieldManager, service, "spec: {ports: [{port: 80}]}", false},
		{"an item with another key", names.FieldManager, service, "spec: {ports: [{port: 81}]}", true},
		{"items identified by value", names.FieldManager, `{"f:a":{"v:\"x\"":{}}}`, "a: [x]", false},
		{"invalid JSON", names.FieldManager, "{", "{}", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			live, want := &unstructured.Unstructured{}, &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(row.want), &want.Object))
			live.Object = map[string]any{}
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: row.manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(row.fields)}})
			require.Equal(t, row.surplus, hasSurplus(live, want))
		})
	}
}
