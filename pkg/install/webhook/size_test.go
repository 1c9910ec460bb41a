package webhook_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/remit-olm/remit/pkg/install/webhook"
)

func ruleOf(groups, resources int) admissionregistrationv1.RuleWithOperations {
	many := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(prefix, i))
		}
		return out
	}
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: many("g", groups), APIVersions: []string{"v1"}, Resources: many("r", resources)},
	}
}

// The rules of one webhook of 1 MB would expand to 10 billion resources.
func TestResourcesTimesGroupsAreLimited(t *testing.T) {
	csvOf := func(rules ...admissionregistrationv1.RuleWithOperations) *operatorsv1alpha1.ClusterServiceVersion {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{GenerateName: "w", Rules: rules}}
		return csv
	}
	for want, csv := range map[string]*operatorsv1alpha1.ClusterServiceVersion{
		`rules.apiGroups has 100000 entries; at most 1000 are allowed: webhook "w"`: csvOf(ruleOf(100_000, 100_000)),
		"the webhooks of the CSV intercept 1000000 resources":                       csvOf(ruleOf(1_000, 1_000)),
		"rules has 1001 entries": csvOf(make([]admissionregistrationv1.RuleWithOperations, 1_001)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.ErrorContains(t, webhook.CheckSize(csv), want)
		require.ErrorContains(t, webhook.Validate(csv), want)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
	require.NoError(t, webhook.CheckSize(csvOf(ruleOf(500, 500))))
}

// What is required for webhooks repeats the names of their rules for each target namespace and verb.
func TestNamesInRulesOfWebhooksAreLimited(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	for range 2 {
		rule := ruleOf(1, 1)
		rule.Resources[0] = strings.Repeat("r", 30<<10)
		csv.Spec.WebhookDefinitions = append(csv.Spec.WebhookDefinitions, operatorsv1alpha1.WebhookDescription{GenerateName: "w", Rules: []admissionregistrationv1.RuleWithOperations{rule}})
	}
	require.NoError(t, webhook.CheckSize(csv))
	csv.Spec.WebhookDefinitions = append(csv.Spec.WebhookDefinitions, csv.Spec.WebhookDefinitions[0])
	require.EqualError(t, webhook.CheckSize(csv), "the names in the rules of the CSV's webhooks have 90 KiB; at most 64 are supported")
}

// Each group whose resources differ in their scope becomes a rule of its own, with all operations and versions.
func TestOperationsVersionsAndGroupsAreLimited(t *testing.T) {
	check := func(change func(*admissionregistrationv1.RuleWithOperations), rules int) error {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		d := operatorsv1alpha1.WebhookDescription{GenerateName: "w"}
		for range rules {
			rule := ruleOf(2, 1)
			change(&rule)
			d.Rules = append(d.Rules, rule)
		}
		csv.Spec.WebhookDefinitions = append(csv.Spec.WebhookDefinitions, d)
		return webhook.CheckSize(csv)
	}
	require.NoError(t, check(func(r *admissionregistrationv1.RuleWithOperations) {
		r.Operations, r.APIVersions = make([]admissionregistrationv1.OperationType, 5), make([]string, 50)
	}, 1))
	require.ErrorContains(t, check(func(r *admissionregistrationv1.RuleWithOperations) {
		r.Operations = make([]admissionregistrationv1.OperationType, 6)
	}, 1), `a rule has 6 operations and 1 apiVersions; at most 5 and 50 are supported: webhook "w"`)
	require.ErrorContains(t, check(func(r *admissionregistrationv1.RuleWithOperations) { r.APIVersions = make([]string, 51) }, 1), "51 apiVersions")
	require.NoError(t, check(func(r *admissionregistrationv1.RuleWithOperations) { r.APIGroups = make([]string, 1000) }, 5))
	require.ErrorContains(t, check(func(r *admissionregistrationv1.RuleWithOperations) { r.APIGroups = make([]string, 1000) }, 6),
		"the rules of the CSV's webhooks have 6000 apiGroups; at most 5000 are supported")
}

// Each of the 1,000 errors of a description repeated its name.
func TestErrorsAboutWebhooksAreFewAndShort(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{
		GenerateName: strings.Repeat("w", 1<<20), Type: operatorsv1alpha1.ConversionWebhook, ConversionCRDs: make([]string, 1000),
	}}
	err := webhook.Validate(csv)
	require.ErrorContains(t, err, "or more other errors in webhook descriptions")
	require.Less(t, len(err.Error()), 10_000)
}
