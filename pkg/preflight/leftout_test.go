package preflight

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/step"
)

func TestNotesOmittedLabelsAndAnnotations(t *testing.T) {
	cm := object(t, "v1", "ConfigMap", "ns", "")
	cm.Dropped = []string{"k8s.io/a", "k8s.io/b"}
	csv := object(t, "operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", `spec: {install: {strategy: deployment, spec: {deployments: [
 {name: ordering, label: {olm.catalogSource: c}, spec: {template: {metadata: {labels: {app: a, k8s.io/x: x}, annotations: {k8s.io/x: x, own.example.com/x: x}}}}},
 {name: plain, spec: {template: {metadata: {labels: {app: a}}}}}]}}}`)
	csv.Install = &step.Install{Config: &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{"openshift.io/scc": "privileged", "cert-manager.io/inject-ca-from": "ns/x", "own": "x"}}}
	const omitted = ": omitted labels and annotations that control other programs in the cluster: "
	want := []string{
		"ConfigMap ns/x" + omitted + "k8s.io/a, k8s.io/b",
		"Deployment ns/ordering" + omitted + "k8s.io/x, olm.catalogSource, openshift.io/scc",
		"Deployment ns/plain" + omitted + "openshift.io/scc",
	}
	report := Report{Notes: []string{"a note", want[0]}}
	require.NoError(t, report.NoteLeftOut([]step.Step{cm, csv}))
	require.Equal(t, append(want, "a note"), report.Notes)
	text, err := LeftOutText([]step.Step{cm, csv})
	require.NoError(t, err)
	require.EqualValues(t, strings.Join(want, "\n"), text)
}

// The author of a bundle chooses the number and the length of the label and annotation keys.
func TestLimitsTheTextAboutOmissions(t *testing.T) {
	var steps []step.Step
	for n := range 1000 {
		s := object(t, "v1", "ConfigMap", "ns", "")
		for k := range 100 {
			s.Dropped = append(s.Dropped, fmt.Sprintf("k8s.io/%d-%d", n, k))
		}
		steps = append(steps, s)
	}
	steps[0].Dropped = []string{"k8s.io/" + strings.Repeat("x", 1<<20)}
	text, err := LeftOutText(steps)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), maxLeftOut)
	require.Contains(t, text, "k8s.io/1-19 and 80 more\n")
	require.Regexp(t, `and \d+ more$`, text)

	none, err := LeftOutText([]step.Step{object(t, "v1", "ConfigMap", "ns", "")})
	require.NoError(t, err)
	require.Empty(t, none)
}
