package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/step"
)

// maxLeftOut is the maximum length, in bytes, of the result of LeftOutText.
const maxLeftOut = 4 << 10

// maxWarnings is the maximum number of warnings about a bundle that are included.
const maxWarnings = 20

// NoteLeftOut adds notes about parts of the bundles that are not installed: the steps' warnings, fields that the API
// server does not recognize, and labels and annotations that are removed from the objects and from the Deployments of
// the ClusterServiceVersions.
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

// LeftOutText returns the notes that NoteLeftOut adds, as text of limited length; "" if there are none.
func LeftOutText(steps []step.Step) (message.Text, error) {
	lines, err := omissions(steps)
	texts := make([]message.Text, 0, len(lines))
	for _, line := range lines {
		texts = append(texts, message.Line(line))
	}
	return join(texts, maxLeftOut), err
}

func omissions(steps []step.Step) ([]string, error) {
	var lines []string
	for _, s := range steps {
		if len(s.Dropped) > 0 {
			lines = append(lines, bundle.LeftOut(apply.Describe(s.Object), s.Dropped))
		}
		if len(s.Pruned) > 0 {
			lines = append(lines, fmt.Sprintf("%s: omitted these fields, which the API server does not recognize: %s", apply.Describe(s.Object), bundle.Named(s.Pruned)))
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

// limitWarnings replaces all warnings after the first maxWarnings with a count, because an untrusted bundle can cause
// many.
func limitWarnings(warnings []string) []string {
	if len(warnings) <= maxWarnings {
		return warnings
	}
	return append(slices.Clone(warnings[:maxWarnings]), fmt.Sprintf("and %d more warnings about this bundle", len(warnings)-maxWarnings))
}
