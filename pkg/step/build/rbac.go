package build

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxRoleName bounds the length of generated names, so that they can be used as label values (OLM v0 contract).
const maxRoleName = 63

// Grant is a set of rules that one of the operator's ServiceAccounts gets in one scope.
type Grant struct {
	// Namespace is the namespace in which the rules apply, or rbac.ClusterScope for the whole cluster.
	Namespace      string
	ServiceAccount string
	Rules          []rbacv1.PolicyRule
}

// Grants returns the CSV's permissions for an OperatorGroup with these targets. Namespaced permissions apply in the
// operator's own namespace and in every target, or cluster-wide if the group selects all namespaces; cluster
// permissions apply cluster-wide.
func Grants(csv *operatorsv1alpha1.ClusterServiceVersion, operatorNamespace string, targets []string) []Grant {
	var grants []Grant
	for _, p := range bundle.Permissions(csv) {
		cluster := slices.Clone(p.Cluster)
		if slices.Contains(targets, rbac.ClusterScope) && len(p.Namespaced) > 0 {
			cluster = append(cluster, p.Namespaced...)
			cluster = append(cluster, ReadNamespaces())
		} else if len(p.Namespaced) > 0 {
			for _, namespace := range sets.List(sets.New(targets...).Insert(operatorNamespace)) {
				grants = append(grants, Grant{Namespace: namespace, ServiceAccount: p.ServiceAccount, Rules: p.Namespaced})
			}
		}
		if len(cluster) > 0 {
			grants = append(grants, Grant{Namespace: rbac.ClusterScope, ServiceAccount: p.ServiceAccount, Rules: cluster})
		}
	}
	return grants
}

// MaxCombinations bounds the number of combinations that a ClusterServiceVersion's permissions and the rules of its
// webhooks expand to in all scopes of a plan together: the combinations of their rules, multiplied by the number of
// namespaces in which they apply.
const MaxCombinations = 500_000

// ReadNamespaces returns the rule that an operator for all namespaces gets in addition to its own rules.
func ReadNamespaces() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}}
}

// OperatorRBAC renders the ServiceAccounts that the CSV declares, and a role and binding for each of its Grants, in
// the order of application and with the owner's labels. Names contain a hash of the namespace, owner and rules, so
// that installs of the same operator in other namespaces never collide and changed rules create a new role. The names
// of a ClusterExtension do not contain its version, so that permissions for these objects remain valid after an upgrade. Roles with the
// same rules in several namespaces share them, so callers must not modify rules in place.
func OperatorRBAC(csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner, targets []string) ([]*unstructured.Unstructured, error) {
	var accounts, bindings []runtime.Object
	var roles []*unstructured.Unstructured
	for _, name := range bundle.ServiceAccountNames(csv) {
		if name == bundle.DefaultServiceAccount {
			continue // every namespace has this ServiceAccount, and Remit does not manage it
		}
		accounts = append(accounts, &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace, Labels: owner.Labels()},
		})
	}
	shared := map[*rbacv1.PolicyRule]any{} // by the first rule of a list
	for _, g := range Grants(csv, owner.Namespace, targets) {
		role, binding, err := renderGrant(g, owner)
		if err != nil {
			return nil, err
		}
		rendered, err := apply.Object(role)
		if err != nil {
			return nil, err
		}
		if rules, ok := shared[&g.Rules[0]]; ok {
			rendered.Object["rules"] = rules
		} else {
			shared[&g.Rules[0]] = rendered.Object["rules"]
		}
		roles = append(roles, rendered)
		bindings = append(bindings, binding)
	}
	before, err := apply.Objects(accounts...)
	if err != nil {
		return nil, err
	}
	after, err := apply.Objects(bindings...)
	if err != nil {
		return nil, err
	}
	return slices.Concat(before, roles, after), nil
}

func renderGrant(g Grant, owner ownerutil.Owner) (role, binding runtime.Object, err error) {
	kept, err := json.Marshal(rbac.KeptRules(g.Rules)) // the caches with which bindings are compared contain no repetitions
	if err != nil {
		return nil, nil, fmt.Errorf("encode rules of ServiceAccount %q: %w", g.ServiceAccount, err)
	}
	hash := owner.GrantHash(g.ServiceAccount, g.Namespace, kept)
	base := cmp.Or(owner.Extension, owner.CSV)
	meta := metav1.ObjectMeta{Name: roleName(base, g, hash), Namespace: g.Namespace, Labels: owner.Labels()}
	meta.Labels[names.LabelPermissionsHash] = hash
	role, binding = rbac.RoleAndBinding(meta, g.Rules, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: g.ServiceAccount, Namespace: owner.Namespace})
	return role, binding, nil
}

// roleName returns <base>-<serviceaccount>-<hash>, or <base>-<hash> for the whole cluster, shortened to maxRoleName. base
// is the name of the CSV or ClusterExtension.
func roleName(base string, g Grant, hash string) string {
	prefix := base
	if g.Namespace != rbac.ClusterScope {
		prefix += "-" + g.ServiceAccount
	}
	if limit := maxRoleName - len(hash) - 1; len(prefix) > limit {
		prefix = prefix[:limit]
	}
	return prefix + "-" + hash
}
