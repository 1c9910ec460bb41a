package preflight_test

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// optional returns the rules, by scope, that optional features of the sample bundle require in addition to the rules for
// installing it.
func optional(t *testing.T, s build.Scope, features ...preflight.Feature) map[string][]string {
	t.Helper()
	needs, err := preflight.Optional(sampleBundle(t), s, features...)
	require.NoError(t, err)
	report := preflight.Examine(account(), needs, func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace} })
	out := map[string][]string{}
	for _, found := range report.Scopes() {
		for _, rule := range found.Rules {
			out[found.Namespace] = append(out[found.Namespace], rbac.Line(rule))
		}
	}
	return out
}

func TestPermissionsForOptionalFeatures(t *testing.T) {
	t.Parallel()
	const copies = `{apiGroups: ["operators.coreos.com"], resources: ["clusterserviceversions"], verbs: ["create"]}`
	for _, row := range []struct {
		name    string
		feature preflight.Feature
		targets []string
		want    map[string][]string
	}{
		{"copies into the own namespace do not exist", preflight.FeatureCopies, []string{"team-a"}, map[string][]string{}},
		{"copies into other targets", preflight.FeatureCopies, []string{"team-a", "team-b"}, map[string][]string{"team-b": {copies}}},
		{"copies into all namespaces", preflight.FeatureCopies, []string{""}, map[string][]string{"": {copies}}},
		{"labels of targets", preflight.FeatureLabels, []string{"team-a", "team-b"}, map[string][]string{
			"team-a": {`{apiGroups: [""], resources: ["namespaces"], resourceNames: ["team-a"], verbs: ["patch"]}`},
			"team-b": {`{apiGroups: [""], resources: ["namespaces"], resourceNames: ["team-b"], verbs: ["patch"]}`},
		}},
		{"all namespaces have no labels", preflight.FeatureLabels, []string{""}, map[string][]string{}},
		{"the annotation of any OperatorGroup", preflight.FeatureAnnotation, []string{"team-a"}, map[string][]string{
			"team-a": {`{apiGroups: ["operators.coreos.com"], resources: ["operatorgroups"], verbs: ["patch"]}`},
		}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, optional(t, scope(row.targets...), row.feature)) })
	}
	require.Empty(t, optional(t, scope("team-a")), "no features")
	_, err := preflight.Optional(sampleBundle(t), scope("team-a"), "x")
	require.ErrorContains(t, err, `unknown feature "x"`)
}

func TestPermissionsForWatchingCertificates(t *testing.T) {
	t.Parallel()
	b := sampleBundle(t)
	needs, err := preflight.Optional(b, scope("team-a"), preflight.FeatureCertificates)
	require.NoError(t, err)
	require.Empty(t, needs, "an operator without webhooks and APIs")
	b.CSV.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{DeploymentName: b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name}}
	needs, err = preflight.Optional(b, scope("team-a"), preflight.FeatureCertificates)
	require.NoError(t, err)
	require.Len(t, needs, 1)
	require.Equal(t, "team-a", needs[0].Namespace)
	require.Equal(t, `{apiGroups: [""], resources: ["secrets"], resourceNames: ["`+b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name+`-service-cert"], verbs: ["watch"]}`, rbac.Line(needs[0].Rules[0]))
}

// The printed permissions satisfy the checks with which the controllers decide whether the account may use a feature.
func TestPermissionsForOptionalFeaturesSuffice(t *testing.T) {
	t.Parallel()
	b := sampleBundle(t)
	needs, err := preflight.Optional(b, scope("team-a"), preflight.Features()...)
	require.NoError(t, err)
	report, err := preflight.Required(account(), b, scope("team-a"), needs...)
	require.NoError(t, err)
	listers := granted(t, report.Manifests())
	in := func(namespace string) rbac.Permissions {
		return listers.Permissions(rbac.SubjectOf(account()), namespace)
	}
	require.Empty(t, preflight.Examine(account(), needs, in).Findings)
	require.Empty(t, evaluate(t, b, scope("team-a"), listers).Findings)
	require.True(t, condition.MayReport(in("team-a"), b.CSV.Name))
	require.NotEmpty(t, provided.Of(b.CSV))
	for _, api := range provided.Of(b.CSV) {
		for _, role := range provided.RolesOf(api) {
			require.Empty(t, provided.Missing(role, nil, in(rbac.ClusterScope)), role.Name)
		}
	}
	require.Empty(t, string(report.ClusterAdmin()))

	without := granted(t, required(t, b, scope("team-a")).Manifests())
	bare := func(namespace string) rbac.Permissions {
		return without.Permissions(rbac.SubjectOf(account()), namespace)
	}
	require.False(t, condition.MayReport(bare("team-a"), b.CSV.Name))
	require.NotEmpty(t, bare("team-a").Set().Missing([]rbacv1.PolicyRule{{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups"}, Verbs: []string{"patch"}}}))
}
