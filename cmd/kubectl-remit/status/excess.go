package status

import (
	"cmp"
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

// Held is what an account holds beyond what its installs need.
type Held struct {
	// Excess lists the bindings that name the account and give more than is needed.
	Excess []Excess `json:"excess,omitempty"`
	// Shared are bindings of a group of the account: what they give is everybody's in the group, and it is
	// not for this account to go without.
	Shared []Shared `json:"shared,omitempty"`
}

// Excess is what one binding gives that no install needs.
type Excess struct {
	// Binding and Role are "<Kind> <name>", Namespace is that of a RoleBinding.
	Binding   string `json:"binding"`
	Role      string `json:"role"`
	Namespace string `json:"namespace,omitempty"`
	// Unused is needed by nothing: it can go. Wider is needed in part: by name, in one namespace, with
	// other verbs; something narrower would do.
	Unused []rbacv1.PolicyRule `json:"unused,omitempty"`
	Wider  []rbacv1.PolicyRule `json:"wider,omitempty"`
}

// Shared is a binding of a group.
type Shared struct {
	Binding   string `json:"binding"`
	Role      string `json:"role"`
	Namespace string `json:"namespace,omitempty"`
	Group     string `json:"group"`
}

// fillHeld compares what the account holds with what the namespace's plans need. Where one of the two is
// not known, everything would look like too much, so that nothing is said but why.
func (w *world) fillHeld(g *Group, account string) {
	if w.rbac == nil || !w.complete {
		return // the report's notes say why
	}
	needs, err := w.needs(g)
	if err != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("what of the account's rules is not needed is not known: %v", err))
		return
	}
	subject := rbac.ServiceAccount(g.Namespace, account)
	given, err := grantsOf(*w.rbac, subject)
	if err != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("what the account holds is not known: %v", err))
		return
	}
	needed, err := usedOf(needs, func(namespace string) ([]rbacv1.PolicyRule, error) { return w.rbac.EffectiveRules(subject, namespace) })
	if err != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("what the account holds is not known: %v", err))
		return
	}
	g.Held = excess(given, needed)
}

// needs are those of what is installed and of the plans that are to be carried out.
func (w *world) needs(g *Group) ([]preflight.Need, error) {
	installed := map[string]bool{}
	for i := range w.csvs {
		if w.csvs[i].Namespace == g.Namespace {
			installed[w.csvs[i].Name] = true
		}
	}
	steps, err := w.steps(g, installed, false)
	if err != nil {
		return nil, err
	}
	unshown := maps.Clone(installed)
	for _, s := range steps {
		delete(unshown, s.Owner.CSV)
	}
	for _, name := range slices.Sorted(maps.Keys(unshown)) {
		return nil, fmt.Errorf("no InstallPlan carries the content that ClusterServiceVersion %s was installed from", name)
	}
	needs, err := preflight.NeedsOf(steps, w.rbac.RulesOf, func(step.Step) bool { return false })
	return append(needs, handovers(steps, g.Namespace)...), err
}

// steps are those of the plans that are to be carried out, and of those that were, as far as they are of what is installed.
func (w *world) steps(g *Group, installed map[string]bool, onlyDone bool) (steps []step.Step, err error) {
	for i := range w.plans {
		plan := &w.plans[i]
		done := plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete
		if plan.Namespace != g.Namespace || plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed ||
			done && !installsAny(plan, installed) || onlyDone && !done {
			continue
		}
		more, err := source.PlanSteps(plan, source.Target{Group: g.Name, Targets: g.Targets})
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

// installsAny reports whether a plan says that it installs one of these ClusterServiceVersions. The content of others is not read.
func installsAny(plan *operatorsv1alpha1.InstallPlan, names map[string]bool) bool {
	return slices.ContainsFunc(plan.Spec.ClusterServiceVersionNames, func(name string) bool { return names[name] })
}

// handovers are what the next version may need of the objects that belong to this one.
func handovers(steps []step.Step, namespace string) (needs []preflight.Need) {
	for _, s := range steps {
		if s.Object.GetNamespace() == namespace && !s.IsCSV() {
			needs = append(needs, preflight.HandOver(s))
		}
	}
	return needs
}

// usedOf are the rules that the needs come down to, by scope. A verb that stands for rules, escalate or
// bind, counts where it is held and they are not.
func usedOf(needs []preflight.Need, held preflight.RulesIn) (map[string][]rbacv1.PolicyRule, error) {
	out := map[string][]rbacv1.PolicyRule{}
	for _, n := range needs {
		rules := n.Rules
		if len(n.Alternatives) > 0 {
			have, err := held(n.Namespace)
			if err != nil {
				return nil, err
			}
			set := rbac.NewSet(have)
			if len(set.Missing(rules)) > 0 {
				instead := slices.IndexFunc(n.Alternatives, func(r rbacv1.PolicyRule) bool { return len(set.Missing([]rbacv1.PolicyRule{r})) == 0 })
				if instead >= 0 {
					rules = n.Alternatives[instead : instead+1]
				}
			}
		}
		out[n.Namespace] = append(out[n.Namespace], rules...)
	}
	return out, nil
}

// given is a binding that gives the account something, by name or through a group.
type given struct {
	binding, role, namespace string
	// group is "" where the binding names the account itself.
	group string
	rules []rbacv1.PolicyRule
}

// grantsOf finds the bindings of a user, in the order of their scopes and names. One whose role does not
// exist gives nothing.
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
		group, applies := through(subjects, user, namespace)
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

// through says whether a binding applies to a user, and by which group; "" by its own name.
func through(subjects []rbacv1.Subject, user rbac.Subject, namespace string) (group string, applies bool) {
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

// excess is what the bindings give beyond the needed rules, which are by scope.
func excess(all []given, needed map[string][]rbacv1.PolicyRule) *Held {
	out := &Held{}
	var anywhere []rbacv1.PolicyRule
	for _, rules := range needed {
		anywhere = append(anywhere, rules...)
	}
	for _, g := range all {
		if g.group != "" {
			out.Shared = append(out.Shared, Shared{g.binding, g.role, g.namespace, g.group})
			continue
		}
		uses := needed[g.namespace]
		if g.namespace == rbac.ClusterScope {
			uses = anywhere // what is held in the whole cluster serves each namespace
		}
		e := Excess{Binding: g.binding, Role: g.role, Namespace: g.namespace}
		e.Unused, e.Wider = split(g.rules, rbac.NewSet(needed[g.namespace]), rbac.Atoms(rbac.Compact(uses)))
		if len(e.Unused)+len(e.Wider) > 0 {
			out.Excess = append(out.Excess, e)
		}
	}
	return out
}

// split sorts what is held beyond the needed rules into what nothing uses and what something uses in
// part. Of rules that are too many to look at, each as a whole counts as used in part.
func split(held []rbacv1.PolicyRule, needed rbac.Set, uses []rbacv1.PolicyRule) (unused, wider []rbacv1.PolicyRule) {
	if rbac.TooLarge(held) {
		return nil, held
	}
	atoms := rbac.Atoms(rbac.Minimal(held))
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
