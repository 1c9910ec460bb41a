package escape

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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

// decodings returns rows about objects that cannot be decoded. A program that lists one would no longer see any other.
func decodings() []row {
	return []row{{number: "351", title: "ClusterServiceVersions that cannot be decoded, and a neighbor's install", holds: p1(), play: func(s *scene) {
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
