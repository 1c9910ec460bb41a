package bundle

import (
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"github.com/remit-olm/remit/pkg/rbac"
)

// DefaultServiceAccount is the ServiceAccount that exists in every namespace. Remit never creates it.
const DefaultServiceAccount = "default"

// MaxOwned is the maximum number of entries in each list of APIs that a CSV owns or requires. Caches keep one more at most. APIs that
// are owned are compared with those of other operators in each shared namespace. A bundle cannot contain as many definitions.
const MaxOwned = 2_000

// MaxPermissions is the maximum number of entries in each list of permissions of a CSV. One without rules grants nothing, so no CSV needs
// more than it may have rules. Caches keep one more at most.
const MaxPermissions = MaxRules

// ValidateCSV returns an error that lists the problems with a ClusterServiceVersion's strategy, names and rules. Every
// CSV must be validated before it is used, whether a bundle or a user created it.
func ValidateCSV(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	strategy := csv.Spec.InstallStrategy
	if strategy.StrategyName != operatorsv1alpha1.InstallStrategyNameDeployment {
		return fmt.Errorf("install strategy %q is not supported; it must be %q", strategy.StrategyName,
			operatorsv1alpha1.InstallStrategyNameDeployment)
	}
	if err := CheckNames("spec", csv.Spec); err != nil {
		return err // other errors would repeat the name
	}
	var errs []error
	defined, served := csv.Spec.CustomResourceDefinitions, csv.Spec.APIServiceDefinitions
	for _, list := range []struct {
		name string
		n    int
	}{
		{"customresourcedefinitions.owned", len(defined.Owned)}, {"customresourcedefinitions.required", len(defined.Required)},
		{"apiservicedefinitions.owned", len(served.Owned)}, {"apiservicedefinitions.required", len(served.Required)},
	} {
		if list.n > MaxOwned {
			errs = append(errs, fmt.Errorf("spec.%s of the CSV has more than %d entries", list.name, MaxOwned))
		}
	}
	if len(strategy.StrategySpec.DeploymentSpecs) == 0 {
		errs = append(errs, errors.New("the install strategy has no deployments"))
	}
	seen := map[string]bool{}
	for _, d := range strategy.StrategySpec.DeploymentSpecs {
		if problems := apivalidation.NameIsDNSSubdomain(d.Name, false); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("deployment name %q: %s", d.Name, problems[0]))
		}
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("two deployments are named %q", d.Name))
		}
		seen[d.Name] = true
		for _, name := range []string{d.Spec.Template.Spec.ServiceAccountName, d.Spec.Template.Spec.DeprecatedServiceAccount} {
			if name != "" {
				errs = append(errs, checkServiceAccountName(fmt.Sprintf("deployment %q", d.Name), name))
			}
		}
	}
	return errors.Join(append(errs, validatePermissions(strategy.StrategySpec))...)
}

// validatePermissions checks the limits on all rules together, and validates individual rules only if the limits are
// met.
func validatePermissions(spec operatorsv1alpha1.StrategyDetailsDeployment) error {
	if n := max(len(spec.Permissions), len(spec.ClusterPermissions)); n > MaxPermissions {
		return fmt.Errorf("permissions and clusterPermissions: a list has more than %d entries", MaxPermissions)
	}
	var all []rbacv1.PolicyRule
	for _, p := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
		all = append(all, p.Rules...)
	}
	if err := checkRules(all); err != nil {
		return fmt.Errorf("permissions and clusterPermissions: %w", err)
	}
	var errs []error
	for i, p := range spec.Permissions {
		errs = append(errs, validatePermission(fmt.Sprintf("permissions[%d]", i), p, true))
	}
	for i, p := range spec.ClusterPermissions {
		errs = append(errs, validatePermission(fmt.Sprintf("clusterPermissions[%d]", i), p, false))
	}
	return errors.Join(errs...)
}

func validatePermission(where string, p operatorsv1alpha1.StrategyDeploymentPermissions, namespaced bool) error {
	errs := []error{checkServiceAccountName(where, p.ServiceAccountName)}
	for _, rule := range p.Rules {
		if err := rbac.Validate(rule, namespaced); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	return errors.Join(errs...)
}

// checkServiceAccountName returns an error, prefixed with where, if the name is invalid.
func checkServiceAccountName(where, name string) error {
	if problems := apivalidation.ValidateServiceAccountName(name, false); len(problems) > 0 {
		return fmt.Errorf("%s: serviceAccountName %q: %s", where, name, problems[0])
	}
	return nil
}

// Rules are the permissions that a CSV requests for one ServiceAccount.
type Rules struct {
	ServiceAccount string
	// Namespaced rules apply in each target namespace, Cluster rules apply cluster-wide.
	Namespaced []rbacv1.PolicyRule
	Cluster    []rbacv1.PolicyRule
}

// Permissions returns the CSV's rules grouped by ServiceAccount and sorted by ServiceAccount name. Deployments whose
// ServiceAccount has no declared permissions are not included.
func Permissions(csv *operatorsv1alpha1.ClusterServiceVersion) []Rules {
	byName := map[string]*Rules{}
	get := func(name string) *Rules {
		if byName[name] == nil {
			byName[name] = &Rules{ServiceAccount: name}
		}
		return byName[name]
	}
	for _, p := range csv.Spec.InstallStrategy.StrategySpec.Permissions {
		r := get(p.ServiceAccountName)
		r.Namespaced = append(r.Namespaced, p.Rules...)
	}
	for _, p := range csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions {
		r := get(p.ServiceAccountName)
		r.Cluster = append(r.Cluster, p.Rules...)
	}
	out := make([]Rules, 0, len(byName))
	for _, name := range ServiceAccountNames(csv) {
		out = append(out, *byName[name])
	}
	return out
}

// ServiceAccountNames returns the names of the ServiceAccounts with declared permissions, sorted.
func ServiceAccountNames(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	var out []string
	spec := csv.Spec.InstallStrategy.StrategySpec
	for _, p := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
		out = append(out, p.ServiceAccountName)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
