package rows

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The verdicts in the table.
const (
	Covered    = "Covered"
	ByEscalate = "Covered by escalate"
	ByBind     = "Covered by bind"
	Missing    = "Missing"
	Unresolved = "Missing (unresolved)"
	Invalid    = "Invalid"
	TooLarge   = "Invalid (too large)"
)

// MaxAtoms is the engine's limit, which row 69 exceeds.
const MaxAtoms = 50_000

// Row is one question about the account t1/acct. Several Rows can belong to the same row of the table.
type Row struct {
	// Number is the number of the table row.
	Number int
	// Held contains the existing roles and bindings in t1, t2 and the cluster.
	Held []any
	// Writes contains the roles and bindings that the account tries to write, in order, until one is refused. A Role may
	// have no rules.
	Writes []any
	// Wants contains cluster-wide rules on which the engine decides directly, without a write.
	Wants   []rbacv1.PolicyRule
	Verdict string
	// Offline is the reason for not asking the API server; "" if the API server is asked.
	Offline string
}

const all, t1, t2 = "", "t1", "t2"

// account is the name of the account, and made is the name of the objects that the account writes.
const (
	account = "acct"
	made    = "new"
)

func acct(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) any {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == all {
		return &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	}
	return &rbacv1.Role{ObjectMeta: meta, Rules: rules}
}

func binding(namespace, name string, to rbacv1.RoleRef, subjects ...rbacv1.Subject) any {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == all {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: to, Subjects: subjects}
	}
	return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: to, Subjects: subjects}
}

// in returns a role with the rules and a binding that grants it to the account, in the namespace or
// cluster-wide.
func in(namespace string, texts ...string) []any { return to(acct(t1), namespace, texts...) }

func to(subject rbacv1.Subject, namespace string, texts ...string) []any {
	return named("held", subject, namespace, texts...)
}

func named(name string, subject rbacv1.Subject, namespace string, texts ...string) []any {
	kind := "Role"
	if namespace == all {
		kind = "ClusterRole"
	}
	return []any{role(namespace, name, Rules(texts...)...), binding(namespace, name, ref(kind, name), subject)}
}

// edit returns a ClusterRole with the rules and a binding that grants it to the account in t1.
func edit(texts ...string) []any {
	return []any{role(all, "edits", Rules(texts...)...), binding(t1, "edits", ref("ClusterRole", "edits"), acct(t1))}
}

func ownedByAnother(objects []any) []any {
	for _, obj := range objects {
		obj.(metav1.Object).SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: "another", UID: "00000000-0000-0000-0000-000000000000",
		}})
	}
	return objects
}

// writes returns a Role with the rules for the account to write, or a ClusterRole if namespace is all.
func writes(namespace string, texts ...string) []any {
	return []any{role(namespace, made, Rules(texts...)...)}
}

func writesRule(namespace string, rule rbacv1.PolicyRule) []any {
	return []any{role(namespace, made, rule)}
}

// gathers returns a ClusterRole with an aggregationRule for the account to write.
func gathers() []any {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: made}}
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
	return []any{r}
}

func binds(namespace string, to rbacv1.RoleRef) []any {
	return []any{binding(namespace, made, to, acct(t2))}
}

func many(n int, format string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

// All returns the rows in order.
func All() []Row {
	view := role(all, "view-pods", Rules("get :pods")...)
	toView := ref("ClusterRole", "view-pods")
	core := []string{""}
	pods := []string{"pods"}
	get := []string{"get"}
	return []Row{
		{Number: 1, Held: in(t1, "* :pods"), Writes: writes(t1, "get,list :pods"), Verdict: Covered},
		{Number: 2, Held: in(t1, "get,list,watch,create,update,patch,delete,deletecollection :pods"), Writes: writes(t1, "* :pods"), Verdict: Missing},
		{Number: 3, Held: in(t1, "get *:deployments"), Writes: writes(t1, "get apps:deployments"), Verdict: Covered},
		{Number: 4, Held: in(t1, "get ,apps:deployments"), Writes: writes(t1, "get *:deployments"), Verdict: Missing},
		{Number: 5, Held: in(t1, "get :*"), Writes: writes(t1, "get :pods/log,pods/exec,serviceaccounts/token"), Verdict: Covered},
		{Number: 6, Held: in(t1, "get :pods"), Writes: writes(t1, "get :pods/log"), Verdict: Missing},
		{Number: 7, Held: in(t1, "get :pods/*"), Writes: writes(t1, "get :pods/log"), Verdict: Missing},
		{Number: 8, Held: in(t1, "get :*/log"), Writes: writes(t1, "get :pods/log"), Verdict: Covered},
		{Number: 9, Held: in(t1, "get apps:*/scale"), Writes: writes(t1, "get apps:*/scale"), Verdict: Covered},
		{Number: 10, Held: in(t1, "get apps:deployments/scale,statefulsets/scale"), Writes: writes(t1, "get apps:*/scale"), Verdict: Missing},
		{Number: 11, Held: in(t1, "get :*/*"), Writes: writes(t1, "get :pods/log"), Verdict: Missing},
		{Number: 12, Held: in(t1, "get :*/*"), Writes: writes(t1, "get :pods/*"), Verdict: Covered},
		{Number: 13, Held: in(t1, "get :pods,pods/log,pods/exec"), Writes: writes(t1, "get :pods/*"), Verdict: Missing},
		{Number: 14, Held: in(t1, "get :secrets"), Writes: writes(t1, "get :secrets [a]"), Verdict: Covered},
		{Number: 15, Held: in(t1, "get :secrets [a,b]"), Writes: writes(t1, "get :secrets [a]"), Verdict: Covered},
		{Number: 16, Held: in(t1, "get :secrets [a]"), Writes: writes(t1, "get :secrets"), Verdict: Missing},
		{Number: 17, Held: in(t1, "get :secrets [a]", "get :secrets [b]"), Writes: writes(t1, "get :secrets [a,b]"), Verdict: Covered},
		{Number: 18, Held: in(t1, "get :pods", "list :pods"), Writes: writes(t1, "get,list :pods"), Verdict: Covered},
		{Number: 19, Held: in(t1, "get :secrets [a]", "list :secrets"), Writes: writes(t1, "get,list :secrets [a]"), Verdict: Covered},
		{Number: 20, Held: slices.Concat(in(t1, "get :pods"), named("more", acct(t1), t1, "list :pods"), edit("watch :pods")),
			Writes: writes(t1, "get,list,watch :pods"), Verdict: Covered},
		{Number: 21, Held: in(all, "get :pods"), Writes: slices.Concat(writes(t1, "get :pods"), writes(t2, "get :pods"), writes(all, "get :pods")), Verdict: Covered},
		{Number: 22, Held: in(t1, "get :pods"), Writes: writes(t2, "get :pods"), Verdict: Missing},
		{Number: 23, Held: in(t1, "get :pods"), Writes: writes(all, "get :pods"), Verdict: Missing},
		{Number: 24, Held: edit("get,list :pods", "get :configmaps"), Writes: writes(t1, "get :pods,configmaps"), Verdict: Covered},
		{Number: 25, Held: in(t1, "get :nodes"), Writes: writes(t1, "get :nodes"), Verdict: Covered},
		{Number: 26, Held: in(t1, "get :nodes"), Writes: writes(all, "get :nodes"), Verdict: Missing},
		{Number: 27, Held: to(group("system:serviceaccounts:t1"), t1, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Covered},
		{Number: 28, Held: to(group("system:authenticated"), all, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Covered},
		{Number: 29, Held: to(group("system:masters"), all, "* *:*", "* *"), Writes: writes(t1, "get :pods"), Verdict: Missing},
		{Number: 30, Held: to(user("system:serviceaccount:t1:acct"), t1, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Covered},
		{Number: 31, Held: to(acct(""), t1, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Covered},
		{Number: 31, Held: to(acct(""), all, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Missing, Offline: "the API server does not store it"},
		{Number: 32, Held: to(acct(t2), t1, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Missing},
		{Number: 33, Held: in(t1, "* *:*"), Writes: writesRule(t1, rbacv1.PolicyRule{APIGroups: core, Resources: pods}), Verdict: Invalid},
		{Number: 34, Held: in(t1, "* *:*"), Writes: writesRule(t1, rbacv1.PolicyRule{Resources: pods, Verbs: get}), Verdict: Invalid},
		{Number: 35, Held: in(t1, "* *:*"), Writes: writesRule(t1, rbacv1.PolicyRule{APIGroups: core, Verbs: get}), Verdict: Invalid},
		{Number: 36, Writes: writes(t1), Verdict: Covered},
		{Number: 37, Held: in(all, "* *:*", "* *"), Writes: writesRule(all, rbacv1.PolicyRule{
			APIGroups: core, Resources: pods, NonResourceURLs: []string{"/x"}, Verbs: get,
		}), Verdict: Invalid},
		{Number: 38, Held: in(all, "get /metrics"), Writes: writes(all, "get /metrics"), Verdict: Covered},
		{Number: 39, Held: in(all, "get /metrics*"), Writes: writes(all, "get /metrics/cadvisor,/metricsfoo"), Verdict: Covered},
		{Number: 40, Held: in(all, "get /healthy/*"), Writes: writes(all, "get /healthy"), Verdict: Missing},
		{Number: 41, Held: in(all, "get /healthy"), Writes: writes(all, "get /healthy/*"), Verdict: Missing},
		{Number: 42, Held: in(all, "get /*"), Writes: writes(all, "get *"), Verdict: Missing},
		{Number: 43, Held: in(all, "get *"), Writes: writes(all, "post *"), Verdict: Missing},
		{Number: 44, Held: edit("get /metrics"), Writes: writes(all, "get /metrics"), Verdict: Missing},
		{Number: 45, Held: in(all, "get /metrics"), Writes: writes(t1, "get /metrics"), Verdict: Invalid},
		{Number: 45, Held: in(all, "get /metrics"), Writes: writes(all, "get /metrics"), Verdict: Covered}, // an OperatorGroup that selects all namespaces
		{Number: 46, Held: in(t1, "create :secrets [x]"), Writes: writes(t1, "create :secrets [x]"), Verdict: Covered},
		{Number: 47, Held: in(t1, "create :secrets"), Writes: writes(t1, "create :secrets [x]"), Verdict: Covered},
		{Number: 48, Held: in(t1, "delete :pods"), Writes: writes(t1, "deletecollection :pods"), Verdict: Missing},
		{Number: 49, Held: in(t1, "list :pods"), Writes: writes(t1, "watch :pods"), Verdict: Missing},
		{Number: 50, Held: in(t1, "get :secrets [a]"), Writes: writes(t1, "get :secrets []"), Verdict: Missing},
		{Number: 51, Held: in(t1, "get :pods"), Writes: writes(t1, "GET :pods"), Verdict: Missing},
		{Number: 51, Held: in(t1, "get :pods"), Writes: writesRule(t1, rbacv1.PolicyRule{APIGroups: core, Resources: pods, Verbs: []string{" get"}}), Verdict: Missing},
		{Number: 52, Held: in(t1, "update rbac.authorization.k8s.io:roles", "get :pods"), Writes: writes(t1, "get,list :pods"), Verdict: Missing},
		{Number: 53, Held: in(t1, "escalate rbac.authorization.k8s.io:roles"), Writes: writes(t1, "* *:*"), Verdict: ByEscalate},
		{Number: 53, Held: in(t1, "escalate rbac.authorization.k8s.io:roles"), Writes: writes(t2, "get :pods"), Verdict: Missing},
		{Number: 54, Held: append(in(t1, "bind rbac.authorization.k8s.io:clusterroles [view-pods]"), view), Writes: binds(t1, toView), Verdict: ByBind},
		{Number: 54, Held: append(in(t1, "bind rbac.authorization.k8s.io:clusterroles [view-pods]"), view), Writes: binds(all, toView), Verdict: Missing},
		{Number: 55, Held: append(in(t1, "get :pods"), view), Writes: binds(t1, toView), Verdict: Covered},
		{Number: 56, Held: append(in(t1, "get :pods"), view), Writes: binds(all, toView), Verdict: Missing},
		{Number: 57, Held: in(all, "get,list,watch,create,update,patch,delete *:*", "get *"), Writes: binds(t1, ref("Role", "x")), Verdict: Unresolved},
		{Number: 58, Held: in(all, "* ,apps,acme.io:*", "* *"), Writes: gathers(), Verdict: Missing},
		{Number: 58, Held: in(all, "* *:*", "* *"), Writes: gathers(), Verdict: Covered},
		{Number: 58, Held: in(all, "escalate rbac.authorization.k8s.io:clusterroles [new]"), Writes: gathers(), Verdict: ByEscalate},
		{Number: 59, Held: in(t1, "* *:*"), Writes: writes(t1, "* *:*"), Verdict: Covered},
		{Number: 60, Held: in(all, "* *:*"), Wants: Rules("* *"), Verdict: Missing, Offline: "it is not a write"},
		{Number: 60, Held: in(all, "* *:*"), Writes: writes(all, "* *"), Verdict: ByEscalate}, // all verbs on all resources include escalate
		{Number: 61, Held: in(t1, "get :pods"), Writes: slices.Concat(writes(t1, "get :pods"), writes(t2, "get :pods")), Verdict: Missing},
		{Number: 62, Held: in(t1, "get :pods"), Writes: writes(all, "get :pods"), Verdict: Missing},
		{Number: 63, Writes: writes(t1, "get :pods"), Verdict: Missing},                                            // another authorizer's decision does not count
		{Number: 64, Held: in(t1, "get :pods"), Writes: writes(t1, "get :pods"), Verdict: Covered},                 // while the Role is cached
		{Number: 64, Held: in(t1, "get :pods")[1:], Writes: writes(t1, "get :pods"), Verdict: Missing},             // after it was removed from the cache
		{Number: 65, Held: ownedByAnother(in(t1, "get :pods")), Writes: writes(t1, "get :pods"), Verdict: Covered}, // regardless of its owner
		{Number: 66, Held: in(t1, "* acme.io:*"), Writes: writes(t1, "update acme.io:widgets/status"), Verdict: Covered},
		{Number: 67, Held: in(t1, "update apps:deployments"), Writes: writes(t1, "update apps:deployments/finalizers"), Verdict: Missing},
		{Number: 68, Held: in(t1, "impersonate :serviceaccounts [x]"), Writes: writes(t1, "impersonate :serviceaccounts"), Verdict: Missing},
		{Number: 69, Held: in(t1, many(5_000, "get :things [n%d]")...), Writes: writes(t1, many(5_000, "get :things [n%d]")...), Verdict: Covered, Offline: slow},
		{Number: 69, Held: in(t1, many(5_000, "get :things [n%d]")...), Writes: writes(t1, many(5_000, "list :things [n%d]")...), Verdict: Missing, Offline: slow},
		{Number: 69, Held: in(t1, "get *:*"), Writes: writes(t1, many(MaxAtoms+1, "get :things%d")...), Verdict: TooLarge, Offline: slow},
	}
}

const slow = "the API server takes too long"
