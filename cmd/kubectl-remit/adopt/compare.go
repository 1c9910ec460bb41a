package adopt

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// maxDiffers is the maximum number of fields that are listed for one Deployment.
const maxDiffers = 20

// compare determines whether the Pods of a Deployment restart after the adoption, and which fields Remit would set
// differently.
func compare(csv *operatorsv1alpha1.ClusterServiceVersion, live, want *appsv1.Deployment) Deployment {
	out := Deployment{Name: live.Name}
	for _, d := range serving.Served(csv) {
		if d.Name == live.Name {
			out.Restarts = true
			out.Why = "it serves webhooks or APIs, and Remit replaces the certificate that OLM issued"
			return out
		}
	}
	has, errHas := apply.Object(live)
	wants, errWants := apply.Object(want)
	if errHas != nil || errWants != nil {
		return out
	}
	out.Differs = differences(has.Object["spec"], wants.Object["spec"], "spec")
	slices.Sort(out.Differs)
	if more := len(out.Differs) - maxDiffers; more > 0 {
		out.Differs = append(out.Differs[:maxDiffers], fmt.Sprintf("%d more fields", more))
	}
	return out
}

// differences returns the paths of the wanted fields whose values differ in live. Defaulted fields do not count as
// differences.
func differences(live, want any, path string) []string {
	if apply.Contains(live, want) {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		l, _ := live.(map[string]any)
		var out []string
		for k, v := range w {
			if v == nil {
				continue
			}
			out = append(out, differences(l[k], v, path+"."+k)...)
		}
		return out
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(w) {
			return []string{path}
		}
		var out []string
		for i := range w {
			out = append(out, differences(l[i], w[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return out
	}
	return []string{path}
}
