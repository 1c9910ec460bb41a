package deployment

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxExcess bounds, in bytes, the list of what a ServiceAccount holds in an IdentityError.
const maxExcess = 700

// IdentityError says that a Deployment would run as a ServiceAccount that it may not have (security
// model, D3).
type IdentityError struct {
	Deployment     string
	ServiceAccount string
	// Why says what is wrong; where the account lacks rules, which.
	Why string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("deployment %q may not run as ServiceAccount %q: %s", e.Deployment, e.ServiceAccount, e.Why)
}

// CheckNames refuses what the API server would refuse of the ServiceAccount names of the CSV's
// Deployments, in both fields that can name one, before anything is written or looked up by it.
func CheckNames(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		pod := &specs[i].Spec.Template.Spec
		for _, name := range []string{pod.ServiceAccountName, pod.DeprecatedServiceAccount} {
			if name == "" {
				continue
			}
			if problems := apivalidation.ValidateServiceAccountName(name, false); len(problems) > 0 {
				return fmt.Errorf("deployment %q: serviceAccountName %q: %s", specs[i].Name, name, problems[0])
			}
		}
	}
	return nil
}

// CheckIdentities holds the ServiceAccounts that the CSV's Deployments run as against the account.
// Those that the CSV declares get their rights as-account and pass; any other, `default` included,
// passes where the account holds all that it holds, everywhere; the account itself never does. The
// error is an *IdentityError.
func CheckIdentities(csv *operatorsv1alpha1.ClusterServiceVersion, account types.NamespacedName, listers rbac.Listers) error {
	declared := bundle.ServiceAccountNames(csv)
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		key := types.NamespacedName{Namespace: csv.Namespace, Name: ServiceAccountName(&specs[i].Spec.Template.Spec)}
		refuse := func(why string) error {
			return &IdentityError{Deployment: specs[i].Name, ServiceAccount: key.Name, Why: why}
		}
		if key == account {
			return refuse("it is the account that bounds this install")
		}
		if slices.Contains(declared, key.Name) && key.Name != bundle.DefaultServiceAccount {
			continue
		}
		excess, err := excessOf(key, account, listers)
		if err != nil {
			return err
		}
		if len(excess) > 0 {
			return refuse(fmt.Sprintf("the ClusterServiceVersion does not declare it, and it holds what ServiceAccount %s does not: %s",
				account, status.Lines(excess, maxExcess)))
		}
	}
	return nil
}

// excessOf lists what one ServiceAccount holds and the account does not, scope by scope.
func excessOf(key, account types.NamespacedName, listers rbac.Listers) ([]string, error) {
	subject := rbac.ServiceAccount(key.Namespace, key.Name)
	scopes, err := listers.Reach(subject)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, scope := range scopes {
		has, err := listers.Held(subject, scope)
		if err != nil {
			return nil, err
		}
		may, err := listers.Held(rbac.ServiceAccount(account.Namespace, account.Name), scope)
		if err != nil {
			return nil, err
		}
		for _, rule := range rbac.Missing(may, has) {
			out = append(out, where(scope)+" "+rbac.Line(rule))
		}
	}
	return out, nil
}

func where(scope string) string {
	if scope == rbac.ClusterScope {
		return "in the whole cluster"
	}
	return "in namespace " + scope
}
