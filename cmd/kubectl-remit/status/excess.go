package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Unneeded lists permissions of an account that its installs do not need.
type Unneeded struct {
	// Excess lists the bindings that name the account and grant more than is needed.
	Excess []Excess `json:"excess,omitempty"`
	// Shared lists the bindings that name a group of the account. They grant permissions to all members of the group, so
	// they cannot be removed for this account alone.
	Shared []Shared `json:"shared,omitempty"`
}

// Excess lists the permissions that one binding grants and no install needs.
type Excess struct {
	// Binding and Role are "<Kind> <name>". Namespace is the namespace of a RoleBinding.
	Binding   string `json:"binding"`
	Role      string `json:"role"`
	Namespace string `json:"namespace,omitempty"`
	// Unused rules can be removed. Wider rules are only partly needed: narrower rules, limited to names, to one
	// namespace or to fewer verbs, are sufficient.
	Unused []rbacv1.PolicyRule `json:"unused,omitempty"`
	Wider  []rbacv1.PolicyRule `json:"wider,omitempty"`
}

// Shared is a binding that names a group of the account.
type Shared struct {
	Binding   string `json:"binding"`
	Role      string `json:"role"`
	Namespace string `json:"namespace,omitempty"`
	Group     string `json:"group"`
}

// fillUnneeded compares the account's permissions with the needs of the namespace's plans. If the permissions or the
// needs are not fully known, it reports only the reason, because the result would be misleading.
func (w *world) fillUnneeded(ctx context.Context, g *Group, account string) {
	if w.rbac == nil || !w.complete {
		return // the report's notes contain the reason
	}
	needs, err := w.needs(ctx, g)
	if err != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("cannot determine which permissions of the account are not needed: %v", err))
		return
	}
	subject := rbac.ServiceAccount(g.Namespace, account)
	given, err := grantsOf(*w.rbac, subject)
	if err != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("cannot determine the permissions of the account: %v", err))
		return
	}
	needed, err := usedOf(needs, func(namespace string) ([]rbacv1.PolicyRule, error) { return w.rbac.EffectiveRules(subject, namespace) })
	if err != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("cannot determine the permissions of the account: %v", err))
		return
	}
	g.Unneeded = excess(given, needed)
}

// needs returns the needs of installed versions and of pending plans.
func (w *world) needs(ctx context.Context, g *Group) ([]preflight.Need, error) {
	installed := map[string]bool{}
	for i := range w.csvs {
		if w.csvs[i].Namespace == g.Namespace {
			installed[w.csvs[i].Name] = true
		}
	}
	steps, err := w.steps(ctx, g, installed, false)
	if err != nil {
		return nil, err
	}
	withoutPlan := maps.Clone(installed)
	for _, s := range steps {
		delete(withoutPlan, s.Owner.CSV)
	}
	for _, name := range slices.Sorted(maps.Keys(withoutPlan)) {
		return nil, fmt.Errorf("no InstallPlan contains the manifests from which ClusterServiceVersion %s was installed", name)
	}
	needs, err := preflight.NeedsOf(steps, w.rbac.RulesOf, func(step.Step) bool { return false })
	return append(needs, handovers(steps, g.Namespace)...), err
}

// steps returns the steps of pending plans and of the completed plans of installed versions. If onlyDone is set, it
// omits pending plans.
func (w *world) steps(ctx context.Context, g *Group, installed map[string]bool, onlyDone bool) (steps []step.Step, err error) {
	for i := range w.plans {
		plan := &w.plans[i]
		done := plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete
		if plan.Namespace != g.Namespace || plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed ||
			done && !installsAny(plan, installed) || onlyDone && !done {
			continue
		}
		more, err := source.PlanSteps(ctx, plan, source.Target{Group: g.Name, Targets: g.Targets})
		if err != nil && !done {
			return nil, err
		}
		for _, s := range more {
			if !done || installed[s.Owner.CSV] {
				steps = append(steps, s)
			}
		}
	}
	return steps, nil
}

// installsAny reports whether the plan names one of the ClusterServiceVersions. If it does not, the caller skips the
// plan without reading its content.
func installsAny(plan *operatorsv1alpha1.InstallPlan, names map[string]bool) bool {
	return slices.ContainsFunc(plan.Spec.ClusterServiceVersionNames, func(name string) bool { return names[name] })
}

// handovers returns the permissions that the next version may need to take over objects of this version.
func handovers(steps []step.Step, namespace string) (needs []preflight.Need) {
	for _, s := range steps {
		if s.Object.GetNamespace() == namespace && !s.IsCSV() {
			needs = append(needs, preflight.HandOver(s))
		}
	}
	return needs
}

// usedOf returns the rules that the needs require, by scope. If the account does not have the rules of a need but has
// an alternative, such as the verb escalate or bind, usedOf returns the alternative instead of the rules.
func usedOf(needs []preflight.Need, rulesIn func(namespace string) ([]rbacv1.PolicyRule, error)) (map[string][]rbacv1.PolicyRule, error) {
	out := map[string][]rbacv1.PolicyRule{}
	for _, n := range needs {
		rules := n.Rules
		if len(n.Alternatives) > 0 {
			have, err := rulesIn(n.Namespace)
			if err != nil {
				return nil, err
			}
			set := rbac.NewSet(have)
			if len(set.Missing(rules)) > 0 {
				alternative := slices.IndexFunc(n.Alternatives, func(r rbacv1.PolicyRule) bool { return len(set.Missing([]rbacv1.PolicyRule{r})) == 0 })
				if alternative >= 0 {
					rules = n.Alternatives[alternative : alternative+1]
				}
			}
		}
		out[n.Namespace] = append(out[n.Namespace], rules...)
	}
	return out, nil
}

// given is a binding that grants permissions to the account, by name or through a group.
type given struct {
	binding, role, namespace string
	// group is "" if the binding names the account.
	group string
	rules []rbacv1.PolicyRule
}

// grantsOf returns the bindings of a user, sorted by scope and name. It ignores bindings whose role does not
// exist.
func grantsOf(l rbac.Listers, user rbac.Subject) ([]given, error) {
	clusterBindings, err := l.ClusterRoleBindings.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	bindings, err := l.RoleBindings.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var out []given
	add := func(kind, name, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) error {
		group, applies := membership(subjects, user, namespace)
		if !applies {
			return nil
		}
		rules, err := l.RulesOf(ref, namespace)
		if apierrors.IsNotFound(err) {
			return nil
		}
		out = append(out, given{kind + " " + name, ref.Kind + " " + ref.Name, namespace, group, rules})
		return err
	}
	for _, b := range clusterBindings {
		if err := add("ClusterRoleBinding", b.Name, rbac.ClusterScope, b.RoleRef, b.Subjects); err != nil {
			return nil, err
		}
	}
	for _, b := range bindings {
		if err := add("RoleBinding", b.Name, b.Namespace, b.RoleRef, b.Subjects); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b given) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.binding, b.binding))
	})
	return out, nil
}

// membership reports whether the subjects of a binding include the user, and through which group. The group is "" if a
// subject names the user.
func membership(subjects []rbacv1.Subject, user rbac.Subject, namespace string) (group string, applies bool) {
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			in := cmp.Or(s.Namespace, namespace)
			if in != "" && rbac.ServiceAccount(in, s.Name).User == user.User {
				return "", true
			}
		case rbacv1.UserKind:
			if s.Name == user.User {
				return "", true
			}
		case rbacv1.GroupKind:
			if slices.Contains(user.Groups, s.Name) {
				group, applies = s.Name, true
			}
		}
	}
	return group, applies
}

// excess returns the permissions that the bindings of the account grant but that are not needed, and all bindings of its
// groups. needed maps scopes to rules.
func excess(all []given, needed map[string][]rbacv1.PolicyRule) *Unneeded {
	out := &Unneeded{}
	var neededAnywhere []rbacv1.PolicyRule
	for _, rules := range needed {
		neededAnywhere = append(neededAnywhere, rules...)
	}
	for _, g := range all {
		if g.group != "" {
			out.Shared = append(out.Shared, Shared{g.binding, g.role, g.namespace, g.group})
			continue
		}
		uses := needed[g.namespace]
		if g.namespace == rbac.ClusterScope {
			uses = neededAnywhere // a cluster-wide grant applies in each namespace
		}
		e := Excess{Binding: g.binding, Role: g.role, Namespace: g.namespace}
		e.Unused, e.Wider = split(g.rules, rbac.NewSet(needed[g.namespace]), rbac.Atoms(rbac.Compact(uses)))
		if len(e.Unused)+len(e.Wider) > 0 {
			out.Excess = append(out.Excess, e)
		}
	}
	return out
}

// split returns the granted rules that are not covered by the needed rules: unused rules are not needed at all, and
// wider rules are needed only in part. If there are too many rules to evaluate, it returns all of them as wider.
func split(granted []rbacv1.PolicyRule, needed rbac.Set, uses []rbacv1.PolicyRule) (unused, wider []rbacv1.PolicyRule) {
	if rbac.TooLarge(granted) {
		return nil, granted
	}
	atoms := rbac.Atoms(rbac.Minimal(granted))
	used := rbac.NewSet(atoms).Using(uses)
	for i, atom := range atoms {
		switch {
		case needed.Covers(atoms[i : i+1]):
		case used[i]:
			wider = append(wider, atom)
		default:
			unused = append(unused, atom)
		}
	}
	return rbac.Minimal(unused), rbac.Minimal(wider)
}
