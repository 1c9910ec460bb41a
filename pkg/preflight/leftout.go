package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// maxLeftOut bounds LeftOutText in bytes.
const maxLeftOut = 4 << 10

// maxWarnings is how many warnings of one bundle are repeated.
const maxWarnings = 20

// NoteLeftOut notes what is left out of the bundles, and which labels and annotations the objects of the steps, and the Deployments
// of their ClusterServiceVersions, do not get.
func (r *Report) NoteLeftOut(steps []step.Step) error {
	lines, err := leftOut(steps)
	if err != nil {
		return err
	}
	r.Notes = append(r.Notes, lines...)
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	return nil
}

// LeftOutText is what NoteLeftOut notes, as one short text; "" where nothing is left out.
func LeftOutText(steps []step.Step) (string, error) {
	lines, err := leftOut(steps)
	return join(lines, maxLeftOut), err
}

func leftOut(steps []step.Step) ([]string, error) {
	var lines []string
	for _, s := range steps {
		if len(s.Dropped) > 0 {
			lines = append(lines, bundle.LeftOut(apply.Describe(s.Object), s.Dropped))
		}
		if len(s.Pruned) > 0 {
			lines = append(lines, fmt.Sprintf("%s: omitted these fields, which the API server does not know: %s", apply.Describe(s.Object), bundle.Named(s.Pruned)))
		}
		lines = append(lines, atMost(s.Warnings)...)
		if !s.IsCSV() {
			continue
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := decode(s.Object, csv); err != nil {
			return nil, err
		}
		var config *operatorsv1alpha1.SubscriptionConfig
		if s.Install != nil {
			config = s.Install.Config
		}
		lines = append(lines, deployment.LeftOut(csv, config)...)
	}
	return lines, nil
}

// atMost shortens a list of a stranger's warnings.
func atMost(warnings []string) []string {
	if len(warnings) <= maxWarnings {
		return warnings
	}
	return append(slices.Clone(warnings[:maxWarnings]), fmt.Sprintf("and %d more warnings about this bundle", len(warnings)-maxWarnings))
}
