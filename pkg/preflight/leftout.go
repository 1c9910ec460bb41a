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

// maxLeftOut limits LeftOutText, in bytes.
const maxLeftOut = 4 << 10

// maxWarnings limits the warnings that are repeated for one bundle.
const maxWarnings = 20

// NoteLeftOut adds notes about omitted parts of the bundles, and about omitted labels and annotations of the steps'
// objects and of the Deployments of their ClusterServiceVersions.
func (r *Report) NoteLeftOut(steps []step.Step) error {
	lines, err := omissions(steps)
	if err != nil {
		return err
	}
	r.Notes = append(r.Notes, lines...)
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	return nil
}

// LeftOutText returns what NoteLeftOut notes as a short text; "" if nothing is omitted.
func LeftOutText(steps []step.Step) (string, error) {
	lines, err := omissions(steps)
	return join(lines, maxLeftOut), err
}

func omissions(steps []step.Step) ([]string, error) {
	var lines []string
	for _, s := range steps {
		if len(s.Dropped) > 0 {
			lines = append(lines, bundle.LeftOut(apply.Describe(s.Object), s.Dropped))
		}
		if len(s.Pruned) > 0 {
			lines = append(lines, fmt.Sprintf("%s: omitted these fields, which the API server does not know: %s", apply.Describe(s.Object), bundle.Named(s.Pruned)))
		}
		lines = append(lines, limitWarnings(s.Warnings)...)
		if !s.IsCSV() {
			continue
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := apply.Decode(s.Object, csv); err != nil {
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

// limitWarnings shortens the warnings about an untrusted bundle.
func limitWarnings(warnings []string) []string {
	if len(warnings) <= maxWarnings {
		return warnings
	}
	return append(slices.Clone(warnings[:maxWarnings]), fmt.Sprintf("and %d more warnings about this bundle", len(warnings)-maxWarnings))
}
