package escape

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/decoding"
	"github.com/remit-olm/remit/test/escape/forge"
)

// undecodable are values in a ClusterServiceVersion that the API server stores and that its Go type does not have. For all of
// them, see the tests of pkg/lib/decoding.
var undecodable = []struct {
	title, why string
	set        func(c forge.CSV, deployment map[string]any)
}{
	{"labels that are a list", "labels", func(_ forge.CSV, d map[string]any) {
		set(d, map[string]any{"labels": []any{"x"}}, "spec", "template", "metadata")
	}},
	{"a version that is a word", "major number", func(c forge.CSV, _ map[string]any) { c.Set("abc", "spec", "version") }},
	{"a port that is larger than 32 bits", "of type int32", func(_ forge.CSV, d map[string]any) {
		set(d, []any{map[string]any{"name": "c", "image": "i", "readinessProbe": map[string]any{"tcpSocket": map[string]any{"port": int64(1) << 32}}}},
			"spec", "template", "spec", "containers")
	}},
}

func set(object map[string]any, value any, fields ...string) {
	if err := unstructured.SetNestedField(object, value, fields...); err != nil {
		panic(fmt.Sprintf("field %v: %v", fields, err)) // the path comes from this test
	}
}

// maxLevels is the number of levels of lists and objects up to which the API server stores an object. A client that decodes a list or an
// event as a whole refuses one that contains such an object.
const maxLevels = 10_000

// nestedObjects returns objects in each other.
func nestedObjects(levels int) map[string]any {
	inner := map[string]any{}
	for range levels - 1 {
		inner = map[string]any{"f:a": inner}
	}
	return inner
}

// nested returns a ClusterServiceVersion whose Pod template has too many levels, and objects of two kinds whose managed fields have.
func (s *scene) nested() []*unstructured.Unstructured {
	template := csv().Set("deep-template", "metadata", "name")
	list, _, err := unstructured.NestedSlice(template.Object, "spec", "install", "spec", "deployments")
	require.NoError(s.T, err)
	d, ok := list[0].(map[string]any)
	require.True(s.T, ok)
	set(d, map[string]any{"x": nestedObjects(maxLevels - 9)}, "spec", "template", "metadata")
	out := []*unstructured.Unstructured{{Object: template.Set(list, "spec", "install", "spec", "deployments").Object}}
	for name, object := range map[string]map[string]any{
		"deep-version": csv().Object,
		"deep-subscription": {"apiVersion": operatorsv1alpha1.SchemeGroupVersion.String(), "kind": operatorsv1alpha1.SubscriptionKind,
			"spec": map[string]any{"name": "none", "source": "none", "sourceNamespace": s.Namespace}},
	} {
		obj := &unstructured.Unstructured{Object: object}
		obj.SetName(name)
		set(obj.Object, []any{map[string]any{
			"manager": "mallory", "operation": "Update", "apiVersion": obj.GetAPIVersion(), "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:name": nestedObjects(maxLevels - 6)}},
		}}, "metadata", "managedFields")
		out = append(out, obj)
	}
	for _, obj := range out {
		obj.SetNamespace(s.Namespace)
	}
	return out
}

// tolerantlyListed asserts that a client of Remit lists what other clients cannot.
func (s *scene) tolerantlyListed() {
	s.T.Helper()
	for _, list := range []client.ObjectList{&operatorsv1alpha1.ClusterServiceVersionList{}, &operatorsv1alpha1.SubscriptionList{}} {
		require.ErrorContains(s.T, cluster.Client.List(s.T.Context(), list), "exceeded max depth")
		config := cluster.Config()
		config.Wrap(decoding.Tolerant(cluster.Client.Scheme()))
		tolerant, err := client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
		require.NoError(s.T, err)
		require.NoError(s.T, tolerant.List(s.T.Context(), list))
		require.GreaterOrEqual(s.T, meta.LenList(list), 2)
	}
}

// decodings returns rows about objects that cannot be decoded. A program that lists one would no longer see any other.
func decodings() []row {
	return []row{{number: "351a", title: "objects of as many levels as the API server stores, and a neighbor's install", holds: p1(), play: func(s *scene) {
		s.group(s.Namespace)
		mallory := s.mallory()
		for _, obj := range s.nested() {
			require.NoError(s.T, s.apply(mallory, obj.Object), obj.GetName())
			require.NoError(s.T, s.Get(obj.GetName(), obj)) // alone, it can be decoded
		}
		neighbor := s.beside(1)
		neighbor.install(bundleOf(csv()))
		neighbor.Succeeded(probeCSV)
		s.tolerantlyListed()
		s.Eventually(func(c *assert.CollectT) {
			bad := s.nested()[0]
			assert.NoError(c, s.Get(bad.GetName(), bad))
			message, _, _ := unstructured.NestedString(bad.Object, "status", "message")
			assert.Contains(c, message, "nested more than 1000 levels deep")
		})
		for _, obj := range s.nested() {
			require.NoError(s.T, mallory.Delete(s.T.Context(), obj), "its finalizer is removed")
		}
	}}, {number: "351", title: "ClusterServiceVersions that cannot be decoded, and a neighbor's install", holds: p1(), play: func(s *scene) {
		s.group(s.Namespace)
		mallory := s.mallory()
		for i, u := range undecodable {
			c := csv()
			list, _, err := unstructured.NestedSlice(c.Object, "spec", "install", "spec", "deployments")
			require.NoError(s.T, err)
			d, ok := list[0].(map[string]any)
			require.True(s.T, ok)
			u.set(c, d)
			c.Set(list, "spec", "install", "spec", "deployments").Set(fmt.Sprint("bad", i), "metadata", "name")
			require.NoError(s.T, s.apply(mallory, c.Object), u.title)
		}
		neighbor := s.beside(1)
		neighbor.install(bundleOf(csv()))
		neighbor.Succeeded(probeCSV)
		bad := &unstructured.Unstructured{} // the tests' client cannot decode the type either
		bad.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
		for i, u := range undecodable {
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, cluster.Client.Get(s.T.Context(), types.NamespacedName{Namespace: s.Namespace, Name: fmt.Sprint("bad", i)}, bad))
				message, _, _ := unstructured.NestedString(bad.Object, "status", "message")
				assert.Contains(c, message, "a part of the object cannot be decoded", u.title)
				assert.Contains(c, message, u.why)
			})
			require.NoError(s.T, mallory.Delete(s.T.Context(), bad), "its finalizer is removed")
		}
		s.noDeployments()
	}}}
}
