package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Need describes what one action of Remit requires of an account.
type Need struct {
	// Namespace is the scope in which the rules are required; ClusterScope for the whole cluster.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Granted is true if the account writes an object that grants the rules to other subjects, and false if the account
	// sends requests that need the rules itself. For grants, the API server's escalation check considers only RBAC,
	// regardless of what other authorizers allow.
	Granted bool
	// Alternatives are rules with the verb escalate or bind. An account with any one of them in the same scope does not
	// need Rules, because the API server then skips the escalation check.
	Alternatives []rbacv1.PolicyRule
	// Identities is true if the account also needs all permissions of every ServiceAccount in Namespace.
	// preflight.Identities determines these permissions.
	Identities bool
	// Unenforced is true if no request of the install makes the API server check the rules, so that only Remit's own check bounds it:
	// what a webhook intercepts (docs/adr/0013).
	Unenforced bool
	// Hidden is true if the rules must not be shown to readers of the report: the report shows only Cause, and the
	// suggested grant omits the rules.
	Hidden bool
	// Object is the affected object, such as "Role t1/x"; Cause is the action, such as "apply Role t1/x".
	Object, Cause string
	// Grants is the role or binding to write, or nil. The API server requires its writer to have the rules that it
	// grants.
	Grants *unstructured.Unstructured
	// ReadError explains why Rules are unknown: a role could not be read.
	ReadError error
	// Invalid is the reason why the request is refused regardless of the account's permissions: the API server rejects
	// it, or it is not allowed in a bounded group.
	Invalid error
	// Notes explain rules of the object that grant less or more than they appear to.
	Notes []string
	// Later is true if the rules are needed only to remove or replace this version, not to install or run it.
	Later bool
}
