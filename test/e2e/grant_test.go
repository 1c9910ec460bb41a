package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// figures are how long plans took from the grant to Complete.
type figures []time.Duration

func (f *figures) add(t *testing.T, d time.Duration) {
	t.Helper()
	t.Logf("from grant to Complete: %s", d.Round(time.Millisecond))
	*f = append(*f, d)
}

func (f figures) log(t *testing.T) {
	t.Helper()
	slices.Sort(f)
	if n := len(f); n > 0 {
		t.Logf("from grant to Complete: p50 %s, max %s of %d plans", f[n/2].Round(time.Millisecond), f[n-1].Round(time.Millisecond), n)
	}
}

// It runs alone, one plan after the other, so that the figures say something.
func TestAGrantWakesWhatWaitsForIt(t *testing.T) {
	var all figures
	t.Run("all of it as the message says", func(t *testing.T) {
		tn := subscribed(t, catalogSample)
		tn.Group(env.AccountName, tn.Namespace)
		message := tn.PermissionsMissing()
		tn.NothingWritten()
		all.add(t, tn.UntilComplete(func() { tn.Paste(message) }))
		tn.Succeeded(bundle.CSV)
	})
	for name, pieces := range lastPieces {
		t.Run(name+" is the last missing piece", func(t *testing.T) {
			tn := subscribed(t, catalogSample)
			tn.Group(env.AccountName, tn.Namespace)
			before, last := pieces(tn, withoutNamespaced(t, tn))
			for _, obj := range before {
				tn.Create(obj)
			}
			tn.PermissionsMissing()
			all.add(t, tn.UntilComplete(func() { tn.Create(last) }))
		})
	}
	all.log(t)
}

// withoutNamespaced grants what the sample needs in the whole cluster, and returns the rules that are
// still missing in the tenant's namespace.
func withoutNamespaced(t *testing.T, tn *env.Tenant) []rbacv1.PolicyRule {
	t.Helper()
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(t, err)
	var rest []rbacv1.PolicyRule
	for _, s := range tn.Needs(b, bundle.Package, tn.Namespace).Scopes() {
		if s.Namespace == rbac.ClusterScope {
			tn.Grant(s.Namespace, s.Rules...)
			continue
		}
		rest = append(rest, s.Rules...)
	}
	require.NotEmpty(t, rest)
	return rest
}

// lastPieces grant the rules to the account in different ways: all but one object, and that.
var lastPieces = map[string]func(tn *env.Tenant, rules []rbacv1.PolicyRule) (before []client.Object, last client.Object){
	"a Role": func(tn *env.Tenant, rules []rbacv1.PolicyRule) ([]client.Object, client.Object) {
		return []client.Object{roleBinding(tn, "Role")}, &rbacv1.Role{ObjectMeta: tn.Meta(pieceName(tn)), Rules: rules}
	},
	"a RoleBinding": func(tn *env.Tenant, rules []rbacv1.PolicyRule) ([]client.Object, client.Object) {
		return []client.Object{&rbacv1.Role{ObjectMeta: tn.Meta(pieceName(tn)), Rules: rules}}, roleBinding(tn, "Role")
	},
	"a RoleBinding to a ClusterRole": func(tn *env.Tenant, rules []rbacv1.PolicyRule) ([]client.Object, client.Object) {
		return []client.Object{clusterRole(pieceName(tn), rules, nil)}, roleBinding(tn, "ClusterRole")
	},
	"a ClusterRole": func(tn *env.Tenant, rules []rbacv1.PolicyRule) ([]client.Object, client.Object) {
		return []client.Object{clusterRoleBinding(tn)}, clusterRole(pieceName(tn), rules, nil)
	},
	"a ClusterRoleBinding": func(tn *env.Tenant, rules []rbacv1.PolicyRule) ([]client.Object, client.Object) {
		return []client.Object{clusterRole(pieceName(tn), rules, nil)}, clusterRoleBinding(tn)
	},
	"a ClusterRole by aggregation": func(tn *env.Tenant, rules []rbacv1.PolicyRule) ([]client.Object, client.Object) {
		labels := map[string]string{"e2e.remit.dev/aggregate-to": tn.Namespace}
		whole := clusterRole(pieceName(tn), nil, nil)
		whole.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: labels}}}
		return []client.Object{whole, clusterRoleBinding(tn)}, clusterRole(pieceName(tn)+"-part", rules, labels)
	},
}

func pieceName(tn *env.Tenant) string { return "piece-" + tn.Namespace }

func subjects(tn *env.Tenant) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Account.Namespace, Name: tn.Account.Name}}
}

func roleBinding(tn *env.Tenant, kind string) client.Object {
	return &rbacv1.RoleBinding{ObjectMeta: tn.Meta(pieceName(tn)), Subjects: subjects(tn),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: pieceName(tn)}}
}

func clusterRole(name string, rules []rbacv1.PolicyRule, labels map[string]string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rules}
}

func clusterRoleBinding(tn *env.Tenant) client.Object {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: pieceName(tn)}, Subjects: subjects(tn),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: pieceName(tn)}}
}
