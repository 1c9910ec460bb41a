package corpus

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// identity returns the identity of the case's install, without a UID.
func (c *testCase) identity() scoped.Identity {
	if c.extension {
		return assess.Identity(c.clusterExtension())
	}
	return scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: c.namespace, Name: accountName})
}

// scope returns the scope of the case's OperatorGroup.
func (c *testCase) scope() build.Scope {
	targets := c.targets
	if len(targets) == 0 {
		targets = []string{rbac.ClusterScope}
	}
	return build.Scope{Namespace: c.namespace, Package: c.pkg, Targets: targets}
}

func (c *testCase) steps() ([]step.Step, error) {
	if c.extension {
		_, steps, err := c.rendered()
		return steps, err
	}
	steps, err := build.NewStepResourceFromBundle(c.Bundle, c.scope(), build.Unchecked{})
	if err != nil {
		return nil, err
	}
	return steps.Steps, nil
}

// outside returns the objects of the case that are outside its namespace, except CustomResourceDefinitions. The garbage
// collector does not delete these objects.
func (c *testCase) outside() ([]client.Object, error) {
	steps, err := c.steps()
	var out []client.Object
	for _, s := range steps {
		if !s.IsCRD() && s.Object.GetNamespace() != c.namespace {
			out = append(out, s.Object)
		}
	}
	return out, err
}

func (c *testCase) needs() ([]preflight.Need, error) {
	if c.extension {
		r, steps, err := c.rendered()
		if err != nil {
			return nil, err
		}
		return assess.Needs(r, steps, noRole)
	}
	steps, err := c.steps()
	if err != nil {
		return nil, err
	}
	return preflight.NeedsOf(steps, noRole, func(step.Step) bool { return false })
}

func noRole(ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
	return nil, apierrors.NewNotFound(rbacv1.Resource(ref.Kind), ref.Name)
}

// grants maps scopes to rules.
type grants map[string][]rbacv1.PolicyRule

// granted returns the rules of the printed roles, each of which is bound to the account in its scope. It skips the
// enrollment roles, which are bound to Remit.
func granted(printed []*unstructured.Unstructured) (grants, error) {
	out := grants{}
	for _, obj := range printed {
		if !isGrant(obj) {
			continue
		}
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role); err != nil {
			return nil, err
		}
		out[role.Namespace] = append(out[role.Namespace], role.Rules...)
	}
	return out, nil
}

func isGrant(obj *unstructured.Unstructured) bool {
	if _, ok := scoped.EnrolledForExtension(obj.GetName()); ok {
		return false
	}
	return (obj.GetKind() == "Role" || obj.GetKind() == "ClusterRole") && obj.GetName() != "remit-enrollment-"+accountName
}

// count returns the number of rules.
func (g grants) count() int {
	n := 0
	for _, rules := range g {
		n += len(rules)
	}
	return n
}

// permissions returns the rules that apply in a namespace, including the cluster-wide ones.
func (g grants) permissions(namespace string) rbac.Permissions {
	out := rbac.Permissions{Namespace: namespace, Rules: g[rbac.ClusterScope]}
	if namespace != rbac.ClusterScope {
		out.Rules = slices.Concat(out.Rules, g[namespace])
	}
	return out
}

// mutation is the removal of one verb of one rule.
type mutation struct {
	namespace string
	// rule is the original rule with only the removed verb.
	rule rbacv1.PolicyRule
	// rest contains the remaining rules.
	rest grants
}

func (m mutation) String() string {
	return fmt.Sprintf("%q %s", m.namespace, rbac.Line(m.rule))
}

// mutations returns one mutation for each rule. The seed, which is the case's name, determines the removed verb.
func (g grants) mutations(seed string) []mutation {
	var out []mutation
	for _, namespace := range slices.Sorted(maps.Keys(g)) {
		for i, rule := range g[namespace] {
			h := fnv.New64a()
			fmt.Fprint(h, seed, namespace, i)
			pick := rand.New(rand.NewPCG(h.Sum64(), 0)).IntN(len(rule.Verbs))
			m := mutation{namespace: namespace, rule: *rule.DeepCopy(), rest: maps.Clone(g)}
			m.rule.Verbs = []string{rule.Verbs[pick]}
			rest := slices.Clone(g[namespace])
			rest[i] = *rule.DeepCopy()
			rest[i].Verbs = slices.Delete(rest[i].Verbs, pick, pick+1)
			if len(rest[i].Verbs) == 0 {
				rest = slices.Delete(rest, i, i+1)
			}
			m.rest[namespace] = rest
			out = append(out, m)
		}
	}
	return out
}

// verdict is the result of a mutation.
type verdict int

const (
	// named means that the report names exactly the removed verb.
	named verdict = iota
	// excused means that the account may escalate or bind, so it does not need the verb.
	excused
	// superfluous means that the install does not need the verb, or that another rule grants it.
	superfluous
	// wrong means that the report names something else.
	wrong
)

// judge runs the preflight check with the remaining rules.
func (m mutation) judge(identity scoped.Identity, needs []preflight.Need) (verdict, preflight.Report) {
	report := preflight.Examine(identity, needs, m.rest.permissions)
	return m.compare(scopesOf(report), needs), report
}

func scopesOf(report preflight.Report) grants {
	out := grants{}
	for _, s := range report.Scopes() {
		out[s.Namespace] = s.Rules
	}
	return out
}

func (m mutation) compare(missing grants, needs []preflight.Need) verdict {
	got := atoms(missing)
	want := atoms(grants{m.namespace: {m.rule}})
	if maps.Equal(got, want) {
		return named
	}
	for namespace, rules := range missing {
		taken := []rbacv1.PolicyRule{m.rule}
		if m.namespace != rbac.ClusterScope && m.namespace != namespace {
			taken = nil
		}
		if len(rbac.Missing(taken, rules)) > 0 {
			return wrong
		}
	}
	for _, n := range needs {
		effective := m.rest.permissions(n.Namespace).Rules
		if len(rbac.Missing(effective, n.Rules)) > 0 && slices.ContainsFunc(n.Alternatives, func(u rbacv1.PolicyRule) bool {
			return len(rbac.Missing(effective, []rbacv1.PolicyRule{u})) == 0
		}) {
			return excused
		}
	}
	return superfluous
}

// atoms returns the atoms of rules as text, with their scope.
func atoms(g grants) map[string]bool {
	out := map[string]bool{}
	for namespace, rules := range g {
		for _, rule := range rules {
			for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{rule}) {
				out[fmt.Sprintf("%q %s", namespace, rbac.Line(atom))] = true
			}
		}
	}
	return out
}
