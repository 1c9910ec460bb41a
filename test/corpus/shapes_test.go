package corpus

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shapes maps the bundles of testdata/shapes to the warnings of their InstallPlans. Each bundle has one unusual
// property that occurs in published operators and that OLM v0 accepts.
var shapes = map[string][]string{
	"core-kind-samples": {
		`omitted Service "example" of samples.shapes.remit.dev/v1`, `omitted Role "example" of samples`, `omitted Secret "example" of samples`,
	},
	"undeclared-fields": {
		"CustomResourceDefinition volumes.fields.shapes.remit.dev: omitted these fields, which the API server does not recognize: " +
			".spec.version, .spec.versions[].schema.openAPIV3Schema.properties.spec.properties.size.unit, " +
			".spec.versions[].schema.openAPIV3Schema.properties.spec.properties.storage.class.nullabel",
		`undeclared-fields-metrics: omitted these fields, which the API server does not recognize: .spec.ports[].podPort`,
	},
	"odd-icon": {"omitted spec.icon[0] of ClusterServiceVersion odd-icon.v1.0.0: its base64data is not valid base64"},
}

// shaped returns the cases of testdata/shapes, in the narrowest and the widest mode of each. A bundle that cannot be
// read fails the test but does not affect the others.
func shaped(t *testing.T) []*testCase {
	t.Helper()
	root, err := filepath.Abs("testdata/shapes")
	require.NoError(t, err)
	dirs, err := filepath.Glob(filepath.Join(root, "*", "*"))
	require.NoError(t, err)
	var bundles []*published
	for _, dir := range dirs {
		p, err := open(dir)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		bundles = append(bundles, p)
	}
	slices.SortFunc(bundles, func(a, b *published) int { return cmp.Compare(a.name(), b.name()) })
	out := cases(t, "shape", bundles, endModes)
	seen := map[string]bool{}
	for _, c := range out {
		c.warnings, c.removals = shapes[c.pkg], []removal{withCRDs}
		seen[c.pkg] = true
	}
	for name := range shapes {
		if !seen[name] && os.Getenv("CORPUS_RUN") == "" {
			t.Errorf("testdata/shapes has no bundle %q", name)
		}
	}
	return out
}

// warned returns an error if one of the case's warnings is missing from the InstallPlan.
func (w *world) warned(ctx context.Context, c *testCase) error {
	if c.extension {
		return nil
	}
	plans := &operatorsv1alpha1.InstallPlanList{}
	if err := w.cache.List(ctx, plans, client.InNamespace(c.namespace)); err != nil {
		return err
	}
	var text strings.Builder
	for i := range plans.Items {
		text.WriteString(plans.Items[i].Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Message)
	}
	for _, warning := range c.warnings {
		if !strings.Contains(text.String(), warning) {
			return fmt.Errorf("the InstallPlan does not warn of %q: its condition Installed is %q", warning, text.String())
		}
	}
	return nil
}
