package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
)

// An object that has labels from OLM or from another install does not belong to Remit.
func TestAnObjectWithLabelsOfAnotherInstallIsACollision(t *testing.T) {
	object := func(labels map[string]string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		obj.SetNamespace("ns")
		obj.SetName("x")
		obj.SetLabels(labels)
		return obj
	}
	owner := func(pkg string) ownerutil.Owner {
		return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "ns"}, CSV: "demo.v1.0.0"}
	}
	for name, labels := range map[string]map[string]string{
		"another package's": owner("other").Labels(),
		"OLM's":             {"olm.managed": "true", "olm.owner": "demo.v1.0.0", "olm.owner.namespace": "ns"},
	} {
		s := State{Step: step.Step{Object: object(nil), Owner: owner("demo")}, Live: object(labels)}
		require.True(t, apply.IsCollision((&Executor{}).check(t.Context(), s)), name)
	}
}
