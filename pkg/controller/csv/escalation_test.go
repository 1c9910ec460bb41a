package csv

import (
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
)

// Nothing else warns about a CSV that a user creates.
func TestWarnsOnceOfAnOperatorThatCanObtainPermissions(t *testing.T) {
	t.Parallel()
	for verb, want := range map[string][]string{
		"impersonate": {`Warning GrantsEscalation the operator gets permissions with which it can obtain more permissions than its account has: "impersonate" on users`},
		"get":         nil,
	} {
		w := newWorld(t)
		editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			spec := &c.Spec.InstallStrategy.StrategySpec
			spec.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "demo", Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{verb}}}}}
		})(w)
		w.options.Recorder = events.NewFakeRecorder(20)
		w.settle()
		available("demo")(w)
		require.Equal(t, phaseSucceeded, w.settle().phase, w.csv.Status.Message)
		w.settle()
		close(w.options.Recorder.(*events.FakeRecorder).Events)
		var warnings []string
		for event := range w.options.Recorder.(*events.FakeRecorder).Events {
			if strings.Contains(event, "GrantsEscalation") {
				warnings = append(warnings, event)
			}
		}
		require.Equal(t, want, warnings)
	}
}
