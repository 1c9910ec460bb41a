package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env/proofs"
)

// converted returns a CustomResourceDefinition with a webhook at a Service, and an annotation that records which
// Service Remit set.
func converted(service, mark string) *unstructured.Unstructured {
	out := crd(with("Webhook", "conversion", "strategy"), with("ns", "conversion", "webhook", "clientConfig", "service", "namespace"),
		with(service, "conversion", "webhook", "clientConfig", "service", "name"))
	if mark != "" {
		out.SetAnnotations(map[string]string{"remit.dev/conversion": mark})
	}
	return out
}

// removed returns a CustomResourceDefinition with the conversion strategy None and, unless mark is empty, Remit's
// annotation.
func removed(mark string) *unstructured.Unstructured {
	out := crd(with("None", "conversion", "strategy"))
	if mark != "" {
		out.SetAnnotations(map[string]string{"remit.dev/conversion": mark})
	}
	return out
}

func TestAConversionWebhookThatAnswersIsKept(t *testing.T) {
	for _, row := range []struct {
		name          string
		live, desired *unstructured.Unstructured
		want          string
	}{
		{"a new CustomResourceDefinition", nil, converted("v2", "ns/v2"), "v2"},
		{"no previous conversion", crd(), converted("v2", "ns/v2"), "v2"},
		{"the previous version's webhook", converted("v1", "ns/v1"), converted("v2", "ns/v2"), "v1"},
		{"a webhook that the next version does not declare", converted("v1", "ns/v1"), crd(), "v1"},
		{"a webhook in the bundle", converted("v1", "ns/v1"), converted("own", ""), "own"},
		{"another manager's webhook", converted("other", ""), converted("v2", "ns/v2"), "v2"},
		{"a webhook that another manager took over", converted("other", "ns/v1"), converted("v2", "ns/v2"), "v2"},
		{"no conversion", crd(), crd(), ""},
		{"a webhook that Remit removed", removed("none"), converted("v2", "ns/v2"), ""},
		{"a webhook that Remit removed, without a new one", removed("none"), crd(), ""},
		{"no conversion, not removed by Remit", removed(""), converted("v2", "ns/v2"), "v2"},
		{"a webhook with an annotation that says it was removed", converted("v1", "none"), converted("v2", "ns/v2"), "v2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			keepConversion(row.desired, row.live)
			got, _, err := unstructured.NestedString(row.desired.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			if mark := row.desired.GetAnnotations()["remit.dev/conversion"]; mark == "none" {
				require.NotContains(t, row.desired.Object["spec"], "conversion", "another manager owns the strategy")
			} else if mark != "" {
				require.Equal(t, "ns/"+row.want, mark)
			}
		})
	}
}

// An operator that runs before its conversion is set loses the fields that only other versions have.
func TestAConversionThatRemitRemovedIsRestoredBeforeTheInstall(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "ns"}, CSV: "p.v1", Proofs: proofs.Keys()}
	other := owner
	other.Package = "q"
	for _, row := range []struct {
		name     string
		live     *unstructured.Unstructured
		by       ownerutil.Owner
		desired  *unstructured.Unstructured
		strategy string
	}{
		{"a conversion that Remit removed", removed("none"), owner, converted("v2", "ns/v2"), "Webhook"},
		{"the plan declares no conversion", removed("none"), owner, crd(), "None"},
		{"another owner's conversion", removed("none"), other, converted("v2", "ns/v2"), "None"},
		{"no conversion, not removed by Remit", removed(""), owner, converted("v2", "ns/v2"), "None"},
	} {
		t.Run(row.name, func(t *testing.T) {
			proofs.Mark(row.live, row.by)
			c := fake.NewClientBuilder().WithObjects(row.live).Build()
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row.live), row.live))
			e := &Executor{CRDs: c, Account: c}
			got, err := e.restoreConversion(t.Context(), State{Step: step.Step{Object: row.desired, Owner: owner}, Live: row.live})
			require.NoError(t, err)
			strategy, _, err := unstructured.NestedString(got.Object, "spec", "conversion", "strategy")
			require.NoError(t, err)
			require.Equal(t, row.strategy, strategy)
			if strategy == "Webhook" {
				keepConversion(row.desired, got)
				require.Equal(t, got.Object["spec"].(map[string]any)["conversion"], row.desired.Object["spec"].(map[string]any)["conversion"], "applying the same value does not conflict")
			}
		})
	}
}
