package build

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/rbac"
)

// MaxGrants bounds the number of Grants of a ClusterServiceVersion: its ServiceAccounts, multiplied by the number of
// namespaces. Each has a role and a binding.
const MaxGrants = 5_000

// webhookWeight is the number of combinations that each webhook adds per namespace in addition to its rules.
const webhookWeight = 50

// CheckScopes returns an error if the permissions and webhooks expand to more than MaxCombinations or MaxGrants for an
// OperatorGroup with these targets, or to more roles than the API server and this program can take. It must be called
// before [Grants], and expands nothing itself.
func CheckScopes(csv *operatorsv1alpha1.ClusterServiceVersion, operatorNamespace string, targets []string) error {
	if err := webhook.CheckSize(csv); err != nil {
		return err
	}
	size, err := measure(csv, operatorNamespace, targets)
	if err != nil {
		return err
	}
	for i := range csv.Spec.WebhookDefinitions {
		demand := webhook.Intercepts(&csv.Spec.WebhookDefinitions[i], webhook.Builtin)
		size.combinations += rbac.Size(demand.Cluster) + (rbac.Size(demand.Namespaced)+webhookWeight)*max(len(targets), 1)
	}
	const advice = "use an OperatorGroup with fewer target namespaces, or one for all namespaces"
	if size.combinations > MaxCombinations {
		return fmt.Errorf("its permissions and webhooks expand to more than %d combinations in the %d target namespaces: %s", MaxCombinations, len(targets), advice)
	}
	if size.grants > MaxGrants {
		return fmt.Errorf("its permissions need %d roles in the %d target namespaces; at most %d are allowed: %s", size.grants, len(targets), MaxGrants, advice)
	}
	return nil
}

// renderedRoles is how many times as much memory rendered roles take as their rules, together with what is computed from them.
const renderedRoles = 4

// CostOfRoles returns the estimated memory, in bytes, for the roles that a CSV needs with these targets. They are rendered from its
// permissions, so the size of its bundle does not contain them.
func CostOfRoles(csv *operatorsv1alpha1.ClusterServiceVersion, operatorNamespace string, targets []string) int64 {
	size, err := measure(csv, operatorNamespace, targets)
	if err != nil {
		return 0 // nothing is rendered
	}
	return size.memory * renderedRoles
}

// expansion describes what permissions expand to. memory is that of their rules in all namespaces, in bytes.
type expansion struct {
	combinations, grants int
	memory               int64
}

// measure returns what the permissions of a CSV expand to, or an error if their roles are too large.
func measure(csv *operatorsv1alpha1.ClusterServiceVersion, operatorNamespace string, targets []string) (out expansion, err error) {
	all := slices.Contains(targets, rbac.ClusterScope)
	namespaces := sets.New(targets...).Insert(operatorNamespace).Len()
	b := budget.New("the roles in all target namespaces", budget.MaxRoleBytes)
	for _, p := range bundle.Permissions(csv) {
		name := fmt.Sprintf("the role of ServiceAccount %q", p.ServiceAccount)
		cluster, namespaced := budget.Of(p.Cluster), budget.Of(p.Namespaced)
		out.combinations += rbac.Size(p.Cluster)
		switch {
		case len(p.Namespaced) == 0:
		case all:
			cluster = cluster.Plus(namespaced)
			out.combinations += rbac.Size(append(slices.Clone(p.Namespaced), ReadNamespaces()))
		default:
			out.combinations += rbac.Size(p.Namespaced) * namespaces
			out.grants += namespaces
			if err := b.DrawObject(name, namespaced); err != nil {
				return out, err
			}
			if err := b.Draw(namespaced.Times(namespaces - 1)); err != nil {
				return out, err
			}
		}
		if len(p.Cluster) > 0 || all && len(p.Namespaced) > 0 {
			out.grants++
			if err := b.DrawObject(name, cluster); err != nil {
				return out, err
			}
		}
	}
	out.memory = b.Drawn().Memory
	return out, nil
}
