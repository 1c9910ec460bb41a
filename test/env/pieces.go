package env

import (
	"slices"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Piece is one way to grant rules to the tenant's account in its namespace. It has two parts, so that tests can act just before
// the last change.
type Piece struct {
	Name string
	// Before makes all changes except the last one. Afterwards, the account still has none of the rules.
	Before func(tn *Tenant, rules []rbacv1.PolicyRule)
	// Last makes the last change, which gives the account all of the rules.
	Last func(tn *Tenant, rules []rbacv1.PolicyRule)
}

// toNamespaceGroup is the name of the only Piece that cannot give permissions to a user who is not a ServiceAccount.
const toNamespaceGroup = "a RoleBinding to the namespace's accounts"

// Pieces lists the ways in which an account can get missing permissions.
func Pieces() []Piece {
	return []Piece{
		{"a Role", binds("Role"), creates(role)},
		{"a RoleBinding", creates(role), binds("Role")},
		{"a ClusterRole", bindsEverywhere, creates(clusterRole)},
		{"a ClusterRoleBinding", creates(clusterRole), bindsEverywhere},
		{"a ClusterRole by aggregation", aggregates, creates(labeled(part))},
		{"the label by which aggregation selects a ClusterRole", then(aggregates, creates(part)), changes(labeled(part))},
		{"a RoleBinding to a ClusterRole", creates(clusterRole), binds("ClusterRole")},
		{"the rules of a Role", then(binds("Role"), creates(withoutRules(role))), changes(role)},
		{"a subject of a RoleBinding", then(creates(role), bindsTo("Role")), changes(binding("Role", account))},
		{toNamespaceGroup, creates(role), bindsTo("Role", namespaceGroup)},
		{"a RoleBinding to all users", creates(role), bindsTo("Role", everybody)},
		{"recreation of a deleted Role", then(binds("Role"), creates(withoutRules(role)), deletes(role)), creates(role)},
	}
}

// UserPieces lists the ways in which a user can get missing permissions.
func UserPieces() []Piece {
	return slices.DeleteFunc(Pieces(), func(p Piece) bool { return p.Name == toNamespaceGroup })
}

type (
	change  = func(tn *Tenant, rules []rbacv1.PolicyRule)
	object  = func(tn *Tenant, rules []rbacv1.PolicyRule) client.Object
	subject = func(tn *Tenant) rbacv1.Subject
)

// GrantAllButNamespaced grants the account a bundle's cluster-wide permissions. It returns the rules that the account
// is still missing in the tenant's namespace.
func (tn *Tenant) GrantAllButNamespaced(b *bundle.Bundle, pkg string) []rbacv1.PolicyRule {
	tn.T.Helper()
	var rest []rbacv1.PolicyRule
	for _, s := range tn.Needs(b, pkg, tn.Namespace).Scopes() {
		if s.Namespace == rbac.ClusterScope {
			tn.Grant(s.Namespace, s.Rules...)
			continue
		}
		rest = append(rest, s.Rules...)
	}
	require.NotEmpty(tn.T, rest)
	return rest
}

func then(all ...change) change {
	return func(tn *Tenant, rules []rbacv1.PolicyRule) {
		for _, c := range all {
			c(tn, rules)
		}
	}
}

func creates(o object) change {
	return func(tn *Tenant, rules []rbacv1.PolicyRule) { tn.Create(o(tn, rules)) }
}

func deletes(o object) change {
	return func(tn *Tenant, rules []rbacv1.PolicyRule) {
		tn.T.Helper()
		require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), o(tn, rules)))
	}
}

func changes(o object) change {
	return func(tn *Tenant, rules []rbacv1.PolicyRule) {
		tn.T.Helper()
		require.NoError(tn.T, tn.Cluster.Client.Update(tn.T.Context(), o(tn, rules)))
	}
}

func binds(kind string) change { return bindsTo(kind, account) }

func bindsTo(kind string, subjects ...subject) change { return creates(binding(kind, subjects...)) }

func bindsEverywhere(tn *Tenant, _ []rbacv1.PolicyRule) {
	tn.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: pieceName(tn)}, Subjects: []rbacv1.Subject{account(tn)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: pieceName(tn)}})
}

// aggregates binds the account to a ClusterRole that aggregates all ClusterRoles with the tenant's label.
func aggregates(tn *Tenant, rules []rbacv1.PolicyRule) {
	tn.Create(&rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: pieceName(tn)},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: aggregated(tn)}}},
	})
	bindsEverywhere(tn, rules)
}

func pieceName(tn *Tenant) string { return "piece-" + tn.Namespace }

func aggregated(tn *Tenant) map[string]string {
	return map[string]string{"test.remit.dev/aggregate-to": tn.Namespace}
}

func account(tn *Tenant) rbacv1.Subject {
	if tn.User != "" {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tn.User}
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Account.Namespace, Name: tn.Account.Name}
}

func namespaceGroup(tn *Tenant) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + tn.Account.Namespace}
}

func everybody(*Tenant) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}
}

func role(tn *Tenant, rules []rbacv1.PolicyRule) client.Object {
	return &rbacv1.Role{ObjectMeta: tn.Meta(pieceName(tn)), Rules: rules}
}

func withoutRules(o object) object {
	return func(tn *Tenant, _ []rbacv1.PolicyRule) client.Object { return o(tn, nil) }
}

func clusterRole(tn *Tenant, rules []rbacv1.PolicyRule) client.Object {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: pieceName(tn)}, Rules: rules}
}

// part returns a ClusterRole with the rules. If it has the tenant's label, it is selected by the ClusterRole that the
// function aggregates creates.
func part(tn *Tenant, rules []rbacv1.PolicyRule) client.Object {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: pieceName(tn) + "-part"}, Rules: rules}
}

func labeled(o object) object {
	return func(tn *Tenant, rules []rbacv1.PolicyRule) client.Object {
		obj := o(tn, rules)
		obj.SetLabels(aggregated(tn))
		return obj
	}
}

func binding(kind string, subjects ...subject) object {
	return func(tn *Tenant, _ []rbacv1.PolicyRule) client.Object {
		b := &rbacv1.RoleBinding{ObjectMeta: tn.Meta(pieceName(tn)), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: pieceName(tn)}}
		for _, s := range subjects {
			b.Subjects = append(b.Subjects, s(tn))
		}
		return b
	}
}
