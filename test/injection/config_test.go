package injection

import (
	"encoding/json"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// configuration is a configuration of a ClusterExtension with fields that do not exist.
type configuration struct {
	WatchNamespace   *string                               `json:"watchNamespace,omitempty"`
	DeploymentConfig *operatorsv1alpha1.SubscriptionConfig `json:"deploymentConfig,omitempty"`
	Unknown          map[string]string                     `json:"unknown,omitempty"`
}

// Every place of the configuration of a ClusterExtension and of a Subscription, whose fields are the same, and field names of their own.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	b, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: manifests(t)})
	require.NoError(t, err)
	all := Places[configuration]()
	require.GreaterOrEqual(t, len(all), 100)
	for _, p := range all {
		for _, text := range Strings() {
			var c configuration
			p.Set(&c, text)
			for output, written := range outputsOfConfig(t, b, c) {
				assert.NoError(t, CheckText(written), "%s: %q in %s", output, text, p.Path)
			}
		}
	}
	for _, text := range Strings() {
		for _, config := range []map[string]any{{text: 1}, {"deploymentConfig": map[string]any{text: 1}}, {"deploymentConfig": map[string]any{"env": []any{map[string]any{text: 1}}}}} {
			raw, err := json.Marshal(config)
			require.NoError(t, err)
			_, err = render.ParseConfig(raw)
			require.Error(t, err)
			assert.NoError(t, CheckText(err.Error()))
		}
	}
}

func outputsOfConfig(t *testing.T, b *bundle.Bundle, c configuration) map[string]string {
	t.Helper()
	out := map[string]string{}
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	config, err := render.ParseConfig(raw)
	if err != nil {
		out["refusal"] = err.Error()
	} else if _, err := render.Render(render.Input{Bundle: b, Config: config, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Extension: "ext", Package: "op", Namespace: "ops"}}}); err != nil {
		out["refusal of a rendered bundle"] = err.Error()
	}
	for _, line := range deployment.LeftOut(b.CSV, c.DeploymentConfig) {
		out["omitted"] += line + "\n"
	}
	return out
}
