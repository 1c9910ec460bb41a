package oracle

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rules maps scopes (namespaces or clusterScope) to a subject's effective rules there.
type Rules map[string][]rbacv1.PolicyRule

// claim is a set of permissions in a scope. They are legitimate only if the account also has them.
type claim struct {
	what  string
	scope string
	rules []rbacv1.PolicyRule
}

// bound is the set of permissions of a scene's accounts.
type bound struct {
	authority *authority
	scene     *Scene
	// union is a user with the current and earlier permissions of all accounts, in the scene's namespace and
	// cluster-wide. It is created on demand.
	union  *identity
	remove func()
}

func (b *bound) close() {
	if b.remove != nil {
		b.remove()
	}
}

// exceeded returns the rules that neither any single account nor all accounts together have in a scope.
func (b *bound) exceeded(ctx context.Context, scope string, rules []rbacv1.PolicyRule) ([]string, error) {
	var missing []string
	for i, who := range b.scene.boundIn(scope) {
		lines, err := b.authority.beyond(ctx, who, scope, rules)
		if err != nil || len(lines) == 0 {
			return nil, err
		}
		if i == 0 {
			missing = lines
		}
	}
	if len(b.scene.bounds()) == 1 && b.scene.granted == nil || scope != clusterScope && scope != b.scene.Namespace {
		return missing, nil
	}
	if err := b.unite(ctx); err != nil {
		return nil, err
	}
	if scope != clusterScope {
		scope = ownNamespace
	}
	return b.authority.beyond(ctx, *b.union, scope, rules)
}

func (b *bound) unite(ctx context.Context) error {
	if b.union != nil {
		return nil
	}
	all := Rules{}
	for scope, rules := range b.scene.granted {
		all[scope] = rules
	}
	for _, scope := range []string{clusterScope, b.scene.Namespace} {
		for _, who := range b.scene.bounds() {
			rules, err := b.authority.rules(ctx, who, scope)
			if err != nil {
				return err
			}
			all[scope] = append(all[scope], rules...)
		}
	}
	own := slices.DeleteFunc(all[b.scene.Namespace], func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 })
	who, remove, err := b.authority.createUser(ctx, "remit-oracle-"+b.scene.Namespace, all[clusterScope], own)
	b.union, b.remove = &who, remove
	return err
}

// judge returns the rules of the claims that exceed the bound. To save requests, it first checks all claims of a scope
// together and then checks them one by one only if a rule exceeds the bound.
func (b *bound) judge(ctx context.Context, claims []claim) ([]string, error) {
	together := Rules{}
	for _, c := range claims {
		together[c.scope] = append(together[c.scope], c.rules...)
	}
	suspect := map[string]bool{}
	for scope, rules := range together {
		lines, err := b.exceeded(ctx, scope, rules)
		if err != nil {
			return nil, err
		}
		suspect[scope] = len(lines) > 0
	}
	var out []string
	for _, c := range claims {
		if !suspect[c.scope] {
			continue
		}
		lines, err := b.exceeded(ctx, c.scope, c.rules)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			out = append(out, fmt.Sprintf("%s: in %q %s", c.what, c.scope, line))
		}
	}
	slices.Sort(out)
	return out, nil
}

// claims returns all permissions of a ServiceAccount, as one claim for each scope.
func (b *bound) claims(ctx context.Context, w *rbacWorld, sa types.NamespacedName, what string) ([]claim, error) {
	var out []claim
	for _, scope := range w.scopes(sa) {
		if slices.Contains(b.scene.Gifts, scope) {
			continue
		}
		rules, err := b.authority.rules(ctx, serviceAccount(sa), scope)
		if err != nil {
			return nil, err
		}
		out = append(out, claim{what, scope, rules})
	}
	return out, nil
}

// checkBound checks I1.
func (b *bound) checkBound(ctx context.Context, w *rbacWorld, before *Snapshot, log *ledger) ([]string, error) {
	var claims []claim
	for _, sa := range w.serviceAccounts {
		if sa.Namespace != b.scene.Namespace || slices.Contains(b.scene.Stronger, sa.Name) || slices.Contains(b.scene.Accounts, sa) {
			continue
		}
		more, err := b.claims(ctx, w, sa, fmt.Sprintf("ServiceAccount %s has permissions that its account does not have", sa))
		if err != nil {
			return nil, err
		}
		claims = append(claims, more...)
	}
	for _, rb := range w.bindings {
		_, old := before.objects[rb.key]
		if old || log.byTest(Change{Key: rb.key, How: created}) || rb.key.Namespace == pulseNamespace ||
			rb.key.Namespace != "" && !w.alive[rb.key.Namespace] {
			continue
		}
		claims = append(claims, claim{rb.key.String() + " grants permissions that the account does not have", rb.key.Namespace, w.given(rb)})
	}
	return b.judge(ctx, claims)
}
