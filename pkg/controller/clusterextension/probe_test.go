package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// A cache can still contain an object as it was before this run changed it. The status of the earlier version does not show that
// the new one is available.
func TestAStatusFromBeforeTheWriteIsNoEvidence(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.UID, crd.Generation = "things.acme.io", "u", 1
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	u := givenUnit(t, interceptor.Funcs{}, crd)
	require.NoError(t, u.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	s := u.begin(extension("op"))
	s.pass = u.memory.passFor(s.key(), "h")
	obj := apply.Reference(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crd.Name)
	for _, row := range []struct {
		name, uid, version string
		generation         int64
		outdated           bool
	}{
		{"the cache contains what was written", "u", crd.ResourceVersion, 1, false},
		{"only metadata was written", "u", "9999", 1, false},
		{"the spec was written", "u", "9999", 2, true},
		{"the object was replaced", "v", "9999", 1, true},
		{"another client has replaced the object since", "v", "1", 1, false},
		{"the kind has no generation, and was written", "u", "9999", 0, true},
		{"the kind has no generation, and the cache contains what was written", "u", crd.ResourceVersion, 0, false},
	} {
		written := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"uid": row.uid, "resourceVersion": row.version, "generation": row.generation,
		}}}
		s.mark(step.Step{Object: obj}, written, false)
		why, known, err := s.probe(t.Context(), obj)
		require.NoError(t, err)
		require.True(t, known)
		if row.outdated {
			require.Equal(t, "waiting for the change to CustomResourceDefinition things.acme.io to be observed", why, row.name)
		} else {
			require.Empty(t, why, row.name)
		}
	}
}
