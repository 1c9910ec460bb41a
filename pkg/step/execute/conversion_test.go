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

// converted is a CustomResourceDefinition whose webhook is a Service's, and says by annotation who set that.
func converted(service, mark string) *unstructured.Unstructured {
	out := crd(with("Webhook", "conversion", "strategy"), with("ns", "conversion", "webhook", "clientConfig", "service", "namespace"),
		with(service, "conversion", "webhook", "clientConfig", "service", "name"))
	if mark != "" {
		out.SetAnnotations(map[string]string{"remit.dev/conversion": mark})
	}
	return out
}

// removed is a CustomResourceDefinition without a webhook.
func removed(mark string) *unstructured.Unstructured {
	out := crd(with("None", "conversion", "strategy"))
	if mark != "" {
		out.SetAnnotations(map[string]string{"remit.dev/conversion": mark})
	}
	return out
}

func TestTheConversionThatAnswersIsKept(t *testing.T) {
	for _, row := range []struct {
		name          string
		live, desired *unstructured.Unstructured
		want          string
	}{
		{"a new one", nil, converted("v2", "ns/v2"), "v2"},
		{"none before", crd(), converted("v2", "ns/v2"), "v2"},
		{"the version before's", converted("v1", "ns/v1"), converted("v2", "ns/v2"), "v1"},
		{"one that the next version does without", converted("v1", "ns/v1"), crd(), "v1"},
		{"the bundle's own instead", converted("v1", "ns/v1"), converted("own", ""), "own"},
		{"another manager's", converted("other", ""), converted("v2", "ns/v2"), "v2"},
		{"one that another manager took over", converted("other", "ns/v1"), converted("v2", "ns/v2"), "v2"},
		{"none at all", crd(), crd(), ""},
		{"one that Remit removed", removed("none"), converted("v2", "ns/v2"), ""},
		{"one that Remit removed, with no next one", removed("none"), crd(), ""},
		{"none, without Remit", removed(""), converted("v2", "ns/v2"), "v2"},
		{"a webhook that claims to be removed", converted("v1", "none"), converted("v2", "ns/v2"), "v2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			keepConversion(row.desired, row.live)
			got, _, err := unstructured.NestedString(row.desired.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			if mark := row.desired.GetAnnotations()["remit.dev/conversion"]; mark == "none" {
				require.NotContains(t, row.desired.Object["spec"], "conversion", "the strategy is another manager's")
			} else if mark != "" {
				require.Equal(t, "ns/"+row.want, mark)
			}
		})
	}
}

// An operator that runs before its conversion is set loses the fields that only another version has.
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
		{"one that Remit removed", removed("none"), owner, converted("v2", "ns/v2"), "Webhook"},
		{"the plan declares none", removed("none"), owner, crd(), "None"},
		{"another owner's", removed("none"), other, converted("v2", "ns/v2"), "None"},
		{"none, without Remit", removed(""), owner, converted("v2", "ns/v2"), "None"},
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
				require.Equal(t, got.Object["spec"].(map[string]any)["conversion"], row.desired.Object["spec"].(map[string]any)["conversion"], "the same value does not conflict")
			}
		})
	}
}
