package csv

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// LacksError says which rights the account needs for the writes at hand and does not hold: all of
// them, before any is tried. It is an explanation from the cache, so that what is known to be refused
// costs no request; that it is nil permits nothing.
type LacksError struct {
	Account scoped.Account
	// Missing are lines of "in namespace <ns> <rule>".
	Missing []string
}

func (e *LacksError) Error() string {
	return fmt.Sprintf("ServiceAccount %s does not hold %s", e.Account.Key(), strings.Join(e.Missing, "; "))
}

// verbs of a server-side apply that reads first.
func applyVerbs() []string { return []string{"create", "get", "patch"} }

// lacks holds the writes of the objects against the account: server-side applies, or what verbs says.
func lacks(l rbac.Listers, mapper meta.RESTMapper, account scoped.Account, objs []*unstructured.Unstructured, verbs ...string) error {
	if len(verbs) == 0 {
		verbs = applyVerbs()
	}
	wanted := map[string][]rbacv1.PolicyRule{}
	for _, obj := range objs {
		gvk := obj.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("resource of %s: %w", gvk.Kind, err)
		}
		wanted[obj.GetNamespace()] = append(wanted[obj.GetNamespace()], rbacv1.PolicyRule{
			APIGroups: []string{gvk.Group}, Resources: []string{mapping.Resource.Resource},
			ResourceNames: []string{obj.GetName()}, Verbs: verbs,
		})
	}
	var missing []string
	for namespace, rules := range wanted {
		held, err := l.Held(rbac.ServiceAccount(account.Namespace, account.Name), namespace)
		if err != nil {
			return err
		}
		for _, rule := range rbac.Missing(held, rules) {
			missing = append(missing, inScope(namespace, rule))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &LacksError{Account: account, Missing: missing}
}

func inScope(namespace string, rule rbacv1.PolicyRule) string {
	if namespace == rbac.ClusterScope {
		return "in the whole cluster " + rbac.Line(rule)
	}
	return "in namespace " + namespace + " " + rbac.Line(rule)
}
