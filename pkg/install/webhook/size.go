package webhook

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
)

const (
	// maxEntries is the maximum number of entries of each list in a webhook description.
	maxEntries = 1_000
	// maxResources is the maximum number of resources that all webhooks of a CSV intercept: the resources of each rule,
	// multiplied by its API groups. build.MaxCombinations refuses more anyway, but counts only what is already expanded.
	maxResources = 500_000
	// maxRuleBytes is the maximum size of the names in the rules of all webhooks of a CSV. What is required for the webhooks repeats them
	// for each target namespace and verb. The API server accepts names of any length.
	maxRuleBytes = 64 << 10
	// maxOperations, maxVersions and maxGroups are the maximum numbers of operations and API versions of a rule, and of API groups in all
	// rules. Each group whose resources differ in their scope becomes a rule of its own, with all operations and versions: 142 rules with
	// 1,000 operations took 3 GiB.
	maxOperations, maxVersions, maxGroups = 5, 50, 5_000
)

// CheckSize returns an error if a CSV's webhook descriptions are too many, or their rules expand to too many resources.
// [Intercepts] and [Desired] must not be called for such a CSV.
func CheckSize(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	if n := len(csv.Spec.WebhookDefinitions); n > MaxDescriptions {
		return fmt.Errorf("CSV has %d webhook descriptions; at most %d are supported", n, MaxDescriptions)
	}
	total, size, groups := 0, 0, 0
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		if err := budget.CheckLists(d, maxEntries); err != nil {
			return fmt.Errorf("%w: webhook %q", err, message.Start(d.GenerateName))
		}
		for _, rule := range d.Rules {
			if groups += len(rule.APIGroups); len(rule.Operations) > maxOperations || len(rule.APIVersions) > maxVersions {
				return fmt.Errorf("a rule has %d operations and %d apiVersions; at most %d and %d are supported: webhook %q",
					len(rule.Operations), len(rule.APIVersions), maxOperations, maxVersions, message.Start(d.GenerateName))
			}
		}
		total += resourcesOf(d)
		size += bytesOf(d)
	}
	if size > maxRuleBytes {
		return fmt.Errorf("the names in the rules of the CSV's webhooks have %d KiB; at most %d are supported", size>>10, maxRuleBytes>>10)
	}
	if groups > maxGroups {
		return fmt.Errorf("the rules of the CSV's webhooks have %d apiGroups; at most %d are supported", groups, maxGroups)
	}
	if total > maxResources {
		return fmt.Errorf("the webhooks of the CSV intercept %d resources; at most %d are supported: use fewer rules, apiGroups or resources", total, maxResources)
	}
	return nil
}

// resourcesOf returns the number of resources to which the rules of a webhook expand.
func resourcesOf(d *operatorsv1alpha1.WebhookDescription) (total int) {
	for _, rule := range d.Rules {
		total += max(1, len(rule.APIGroups)*len(rule.Resources))
	}
	return total
}

// bytesOf returns the size of the names in the rules of a webhook.
func bytesOf(d *operatorsv1alpha1.WebhookDescription) (total int) {
	for _, rule := range d.Rules {
		for _, all := range [][]string{rule.APIGroups, rule.APIVersions, rule.Resources} {
			for _, name := range all {
				total += len(name)
			}
		}
	}
	return total
}
