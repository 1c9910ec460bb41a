package csv

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// The record also bounds webhooks, so a label that protects the spec does not replace it.
func TestRecordsTheLastAccount(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "ns/earlier"} {
		for _, labels := range []map[string]string{nil, {names.LabelAnyAccount: ""}} {
			w := newWorld(t)
			recording(before)(w)
			editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Labels = labels })(w)
			got := w.settle()
			require.Contains(t, got.writes, "remit: patch ClusterServiceVersion t1/demo.v1.0.0", "as the controller identity")
			require.True(t, w.Has(w.csv))
			require.Equal(t, "t1/acct", w.csv.Annotations[names.AnnotationAccount])
		}
	}
}

// The author check compares authors with the accounts of the OperatorGroups, whether or not anything can be installed.
func TestRecordsTheAccountOfAVersionThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	const acct = "t1/acct"
	allNamespaces := spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		s.InstallModes = []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	})
	second := with(group("a", "other", "t1"))
	for name, row := range map[string]struct {
		given []change
		want  string
	}{
		"a supported one":             {nil, acct},
		"an unsupported install mode": {[]change{allNamespaces}, acct},
		"no targets":                  {[]change{selecting("none")}, acct},
		"an invalid strategy": {[]change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.InstallStrategy.StrategySpec.DeploymentSpecs = nil
		})}, acct},
		"an invalid API": {[]change{serves, spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.APIServiceDefinitions.Owned[0].DeploymentName = "none"
		})}, acct},
		"an API of another owner":                    {[]change{serves, served}, acct},
		"an account that does not exist":             {[]change{without(serviceAccount("acct"))}, acct},
		"an account that is not enrolled":            {[]change{func(w *world) { w.own = scoped.NotEnrolled(scoped.Account{Namespace: "t1", Name: "acct"}) }}, acct},
		"an OperatorGroup that is being deleted":     {[]change{groupDeleted}, acct},
		"missing permissions":                        {[]change{may()}, acct},
		"an InstallPlan that is in progress":         {[]change{planInProgress}, acct},
		"several OperatorGroups":                     {[]change{second}, acct},
		"several OperatorGroups, and the second was": {[]change{second, recording("t1/other")}, "t1/other"},
		"several OperatorGroups, and another was":    {[]change{second, recording("t1/earlier")}, acct},
		"no OperatorGroup":                           {[]change{without(group("og", ""))}, ""},
		"no OperatorGroup, and one was":              {[]change{without(group("og", "")), recording(acct)}, acct},
		"an OperatorGroup without an account":        {[]change{with(group("og", "", "t1"))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, c := range append([]change{recording("")}, row.given...) {
				c(w)
			}
			w.settle()
			require.True(t, w.Has(w.csv))
			require.Equal(t, row.want, w.csv.Annotations[names.AnnotationAccount], w.csv.Status.Message)
		})
	}
}

// A webhook is narrowed even if the record cannot be written.
func TestARecordThatIsRefusedDelaysOnlyTheInstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sharing(w)
	recording("")(w)
	refusing("remit: patch ClusterServiceVersion t1/demo.v1.0.0", forbidden)(w)
	loses("t2")(w)
	require.Contains(t, w.settle().failed, "record the account of ClusterServiceVersion t1/demo.v1.0.0")
	require.Equal(t, []string{"t1"}, w.reached())
}
