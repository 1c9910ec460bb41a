package rbac

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The verdicts of the table in the design page "Rule-check semantics", section 5.4.
const (
	covered     = "Covered"
	byEscalate  = "Covered by escalate"
	byBind      = "Covered by bind"
	missing     = "Missing"
	unresolved  = "Missing (unresolved)"
	invalid     = "Invalid"
	tooManyFail = "Invalid (too large)"
)

// said is a verdict in the words of the table.
func said(v Verdict) string {
	switch {
	case v.Invalid == ErrTooLarge:
		return tooManyFail
	case v.Invalid != nil:
		return invalid
	case v.Via != "":
		return "Covered by " + v.Via
	case v.Covered():
		return covered
	case v.Unresolved:
		return unresolved
	}
	return missing
}

// asking is a question about the account t1/acct.
type asking func(t *testing.T, l Listers) Verdict

// writes asks whether the account may write a Role in the namespace, or a ClusterRole in ClusterScope.
func writes(namespace string, rules ...rbacv1.PolicyRule) asking {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}, Rules: rules}
	return func(_ *testing.T, l Listers) Verdict { return RoleGrant(role, nil).Check(held(l, namespace)) }
}

func writesIn(namespace string, texts ...string) asking { return writes(namespace, rules(texts...)...) }

// aggregating asks for a ClusterRole with an aggregationRule.
func aggregating(texts ...string) asking {
	selectors := []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}
	role := clusterRole("new", texts...)
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}
	return func(_ *testing.T, l Listers) Verdict { return RoleGrant(role, nil).Check(held(l, ClusterScope)) }
}

// binds asks for a RoleBinding in the namespace, or a ClusterRoleBinding in ClusterScope.
func binds(namespace string, to rbacv1.RoleRef) asking {
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}, RoleRef: to}
	return func(t *testing.T, l Listers) Verdict {
		g, err := BindingGrant(b, l.RulesOf)
		require.NoError(t, err)
		return g.Check(held(l, namespace))
	}
}

// has asks whether the account holds the rules, whatever it may escalate.
func has(namespace string, texts ...string) asking {
	return func(_ *testing.T, l Listers) Verdict { return held(l, namespace).Check(rules(texts...)) }
}

// targets asks for the same Role in every target of an OperatorGroup; the first that lacks it decides.
func targets(namespaces []string, texts ...string) asking {
	return func(t *testing.T, l Listers) Verdict {
		var v Verdict
		for _, namespace := range namespaces {
			if v = writesIn(namespace, texts...)(t, l); !v.Covered() {
				break
			}
		}
		return v
	}
}

func held(l Listers, namespace string) Holding {
	return l.Holding(ServiceAccount("t1", "acct"), namespace)
}

// in gives the account rules by a Role and a RoleBinding, or in ClusterScope by the cluster's kinds.
func in(namespace string, texts ...string) []any {
	return to(account("t1", "acct"), namespace, texts...)
}

func to(subject rbacv1.Subject, namespace string, texts ...string) []any {
	name := strings.Join(texts, "; ")
	if namespace == ClusterScope {
		return []any{clusterRole(name, texts...), clusterBinding(name, ref("ClusterRole", name), subject)}
	}
	return []any{role(namespace, name, texts...), binding(namespace, name, ref("Role", name), subject)}
}

// edit is in(t1), by a ClusterRole that others may feed.
func edit(texts ...string) []any {
	return []any{clusterRole("edit", texts...), binding("t1", "edit", ref("ClusterRole", "edit"), account("t1", "acct"))}
}

func ownedByAnother(objects []any) []any {
	for _, obj := range objects {
		obj.(metav1.Object).SetOwnerReferences([]metav1.OwnerReference{{Kind: "ClusterServiceVersion", Name: "another"}})
	}
	return objects
}

func many(n int, format string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

const all, t1, t2 = ClusterScope, "t1", "t2"

// tableRows are the 69 rows; some ask more than once.
var tableRows = []struct {
	row     int
	held    []any
	ask     asking
	verdict string
}{
	{1, in(t1, "* :pods"), writesIn(t1, "get,list :pods"), covered},
	{2, in(t1, "get,list,watch,create,update,patch,delete,deletecollection :pods"), writesIn(t1, "* :pods"), missing},
	{3, in(t1, "get *:deployments"), writesIn(t1, "get apps:deployments"), covered},
	{4, in(t1, "get ,apps:deployments"), writesIn(t1, "get *:deployments"), missing},
	{5, in(t1, "get :*"), writesIn(t1, "get :pods/log,pods/exec,serviceaccounts/token"), covered},
	{6, in(t1, "get :pods"), writesIn(t1, "get :pods/log"), missing},
	{7, in(t1, "get :pods/*"), writesIn(t1, "get :pods/log"), missing},
	{8, in(t1, "get :*/log"), writesIn(t1, "get :pods/log"), covered},
	{9, in(t1, "get apps:*/scale"), writesIn(t1, "get apps:*/scale"), covered},
	{10, in(t1, "get apps:deployments/scale,statefulsets/scale"), writesIn(t1, "get apps:*/scale"), missing},
	{11, in(t1, "get :*/*"), writesIn(t1, "get :pods/log"), missing},
	{12, in(t1, "get :*/*"), writesIn(t1, "get :pods/*"), covered},
	{13, in(t1, "get :pods,pods/log,pods/exec"), writesIn(t1, "get :pods/*"), missing},
	{14, in(t1, "get :secrets"), writesIn(t1, "get :secrets [a]"), covered},
	{15, in(t1, "get :secrets [a,b]"), writesIn(t1, "get :secrets [a]"), covered},
	{16, in(t1, "get :secrets [a]"), writesIn(t1, "get :secrets"), missing},
	{17, in(t1, "get :secrets [a]", "get :secrets [b]"), writesIn(t1, "get :secrets [a,b]"), covered},
	{18, in(t1, "get :pods", "list :pods"), writesIn(t1, "get,list :pods"), covered},
	{19, in(t1, "get :secrets [a]", "list :secrets"), writesIn(t1, "get,list :secrets [a]"), covered},
	{20, slices.Concat(in(t1, "get :pods"), in(t1, "list :pods"), edit("watch :pods")), writesIn(t1, "get,list,watch :pods"), covered},
	{21, in(all, "get :pods"), writesIn(t1, "get :pods"), covered},
	{21, in(all, "get :pods"), writesIn(t2, "get :pods"), covered},
	{22, in(t1, "get :pods"), writesIn(t2, "get :pods"), missing},
	{23, in(t1, "get :pods"), writesIn(all, "get :pods"), missing},
	{24, edit("get,list :pods", "get :configmaps"), writesIn(t1, "get :pods,configmaps"), covered},
	{25, in(t1, "get :nodes"), writesIn(t1, "get :nodes"), covered},
	{26, in(t1, "get :nodes"), writesIn(all, "get :nodes"), missing},
	{27, to(group("system:serviceaccounts:t1"), t1, "get :pods"), writesIn(t1, "get :pods"), covered},
	{28, to(group("system:authenticated"), all, "get :pods"), writesIn(t1, "get :pods"), covered},
	{29, to(group("system:masters"), all, "* *:*", "* *"), writesIn(t1, "get :pods"), missing},
	{30, to(user("system:serviceaccount:t1:acct"), t1, "get :pods"), writesIn(t1, "get :pods"), covered},
	{31, to(account("", "acct"), t1, "get :pods"), writesIn(t1, "get :pods"), covered},
	{31, to(account("", "acct"), all, "get :pods"), writesIn(t1, "get :pods"), missing},
	{32, to(account("t2", "acct"), t1, "get :pods"), writesIn(t1, "get :pods"), missing},
	{33, in(t1, "* *:*"), writes(t1, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}), invalid},
	{34, in(t1, "* *:*"), writes(t1, rbacv1.PolicyRule{Resources: []string{"pods"}, Verbs: []string{"get"}}), invalid},
	{35, in(t1, "* *:*"), writes(t1, rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: []string{"get"}}), invalid},
	{36, nil, writes(t1), covered},
	{37, in(all, "* *:*", "* *"), writes(all, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"pods"}, NonResourceURLs: []string{"/x"}, Verbs: []string{"get"},
	}), invalid},
	{38, in(all, "get /metrics"), writesIn(all, "get /metrics"), covered},
	{39, in(all, "get /metrics*"), writesIn(all, "get /metrics/cadvisor,/metricsfoo"), covered},
	{40, in(all, "get /healthz/*"), writesIn(all, "get /healthz"), missing},
	{41, in(all, "get /healthz"), writesIn(all, "get /healthz/*"), missing},
	{42, in(all, "get /*"), writesIn(all, "get *"), missing},
	{43, in(all, "get *"), writesIn(all, "post *"), missing},
	{44, edit("get /metrics"), writesIn(all, "get /metrics"), missing},
	{45, in(all, "get /metrics"), writesIn(t1, "get /metrics"), invalid},
	{45, in(all, "get /metrics"), writesIn(all, "get /metrics"), covered},
	{46, in(t1, "create :secrets [x]"), writesIn(t1, "create :secrets [x]"), covered},
	{47, in(t1, "create :secrets"), writesIn(t1, "create :secrets [x]"), covered},
	{48, in(t1, "delete :pods"), writesIn(t1, "deletecollection :pods"), missing},
	{49, in(t1, "list :pods"), writesIn(t1, "watch :pods"), missing},
	{50, in(t1, "get :secrets [a]"), writesIn(t1, "get :secrets []"), missing},
	{51, in(t1, "get :pods"), writesIn(t1, "GET :pods"), missing},
	{51, in(t1, "get :pods"), writes(t1, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{" get"}}), missing},
	{52, in(t1, "update rbac.authorization.k8s.io:roles", "get :pods"), writesIn(t1, "get,list :pods"), missing},
	{53, in(t1, "escalate rbac.authorization.k8s.io:roles"), writesIn(t1, "* *:*"), byEscalate},
	{53, in(t1, "escalate rbac.authorization.k8s.io:roles"), writesIn(t2, "get :pods"), missing},
	{54, append(in(t1, "bind rbac.authorization.k8s.io:clusterroles [view]"), clusterRole("view", "get :pods")), binds(t1, ref("ClusterRole", "view")), byBind},
	{54, append(in(t1, "bind rbac.authorization.k8s.io:clusterroles [view]"), clusterRole("view", "get :pods")), binds(all, ref("ClusterRole", "view")), missing},
	{55, append(in(t1, "get :pods"), clusterRole("x", "get :pods")), binds(t1, ref("ClusterRole", "x")), covered},
	{56, append(in(t1, "get :pods"), clusterRole("x", "get :pods")), binds(all, ref("ClusterRole", "x")), missing},
	{57, in(all, "get,list,watch,create,update,patch,delete *:*", "get *"), binds(t1, ref("Role", "x")), unresolved},
	{58, in(all, "* ,apps,acme.io:*", "* *"), aggregating(), missing},
	{58, in(all, "* *:*", "* *"), aggregating(), covered},
	{58, in(all, "escalate rbac.authorization.k8s.io:clusterroles [new]"), aggregating(), byEscalate},
	{59, in(t1, "* *:*"), writesIn(t1, "* *:*"), covered},
	{60, in(all, "* *:*"), has(all, "* *"), missing},
	{60, in(all, "* *:*"), writesIn(all, "* *"), byEscalate}, // all verbs on all resources are escalate, too
	{61, in(t1, "get :pods"), targets([]string{t1, t2}, "get :pods"), missing},
	{62, in(t1, "get :pods"), targets([]string{all}, "get :pods"), missing},
	{63, nil, writesIn(t1, "get :pods"), missing},                     // another authorizer's yes is not in RBAC
	{64, in(t1, "get :pods"), writesIn(t1, "get :pods"), covered},     // the cache has the Role still
	{64, in(t1, "get :pods")[1:], writesIn(t1, "get :pods"), missing}, // and now no more
	{65, ownedByAnother(in(t1, "get :pods")), writesIn(t1, "get :pods"), covered},
	{66, in(t1, "* acme.io:*"), writesIn(t1, "update acme.io:widgets/status"), covered},
	{67, in(t1, "update apps:deployments"), writesIn(t1, "update apps:deployments/finalizers"), missing},
	{68, in(t1, "impersonate :serviceaccounts [x]"), writesIn(t1, "impersonate :serviceaccounts"), missing},
	{69, in(t1, many(5_000, "get :things [n%d]")...), writesIn(t1, many(5_000, "get :things [n%d]")...), covered},
	{69, in(t1, many(5_000, "get :things [n%d]")...), writesIn(t1, many(5_000, "list :things [n%d]")...), missing},
	{69, in(t1, "get *:*"), writesIn(t1, many(MaxAtoms+1, "get :things%d")...), tooManyFail},
}

func TestTheSixtyNineRows(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range tableRows {
		seen[row.row] = true
		t.Run(fmt.Sprint(row.row), func(t *testing.T) {
			v := row.ask(t, given(t, row.held...))
			require.Equal(t, row.verdict, said(v), "%+v", v)
			if !v.Covered() && v.Invalid == nil {
				require.NotEmpty(t, v.Missing, "what is missing has a name")
			}
		})
	}
	for i := range 69 {
		require.True(t, seen[i+1], "row %d", i+1)
	}
}

// The rows of the table that are said to want a word to the author, whatever the verdict.
func TestLint(t *testing.T) {
	for _, row := range []struct {
		name      string
		namespace string
		rules     []rbacv1.PolicyRule
		want      []string
	}{
		{"12 and 13 a subresource star", t1, rules("get :pods/*,*/*"), []string{
			`resource "*/*" matches nothing: name the subresources, or use "*"`,
			`resource "pods/*" matches nothing: name the subresources, or use "*"`,
		}},
		{"9 one subresource of all", t1, rules("get apps:*/scale"), nil},
		{"25 a cluster-scoped resource in a namespace", t1, rules("get :nodes,nodes/proxy,pods"), []string{
			"nodes is cluster-scoped: a namespaced rule gives nothing on it",
			"nodes/proxy is cluster-scoped: a namespaced rule gives nothing on it",
		}},
		{"26 and in the cluster", all, rules("get :nodes"), nil},
		{"a namespace lies in itself", t1, rules("get :namespaces"), nil},
		{"54 ClusterRoles are bound in namespaces", t1, rules("bind rbac.authorization.k8s.io:clusterroles [view]"), nil},
		{"but not read there", t1, rules("get,bind rbac.authorization.k8s.io:clusterroles"), []string{
			"clusterroles is cluster-scoped: a namespaced rule gives nothing on it",
		}},
		{"46 create by name", t1, rules("get,create :secrets [x]", "create :secrets [y]"), []string{
			"create of secrets by name allows server-side apply and no POST",
		}},
		{"a subresource is created under a name", t1, rules("create :serviceaccounts/token [x]"), nil},
		{"50 the empty name", t1, rules("get :secrets []"), []string{
			`resourceName "" of secrets matches requests without a name, such as list and create`,
		}},
		{"51 verbs by letter", t1, rules("GET :pods"), []string{`verb "GET" matches nothing: verbs are lower case`}},
		{"a group with its version", t1, rules("get apps/v1:deployments"), []string{
			`apiGroup "apps/v1" matches nothing: a group has no version`,
		}},
		{"nothing about the usual", t1, rules("get,list,watch :pods,pods/log", "* *:*", "get :secrets [a]"), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, Lint(row.namespace, row.rules))
		})
	}
}
