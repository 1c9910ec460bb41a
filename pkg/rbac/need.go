package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Need is what one action of Remit requires of an account.
type Need struct {
	// Namespace is the scope in which the rules are required; ClusterScope for the whole cluster.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Granted reports that an object grants the rules to other subjects; otherwise they are requests. For grants the
	// API server's escalation check considers only RBAC, whatever other authorizers allow (rule semantics, row 63).
	Granted bool
	// Alternatives are rules of which any single one, in the same scope, makes Rules unnecessary: escalate and bind,
	// as the API server honors them.
	Alternatives []rbacv1.PolicyRule
	// Identities reports that the account also needs all permissions of every ServiceAccount in Namespace, which
	// preflight.Identities determines.
	Identities bool
	// Hidden reports that readers of the report may not know the rules: only Cause describes them, and the grant does
	// not contain them.
	Hidden bool
	// Object is the affected object, such as "Role t1/x"; Cause is the action, such as "apply Role t1/x".
	Object, Cause string
	// Grants is a role or binding; the API server requires its writer to have the rules that it grants.
	Grants *unstructured.Unstructured
	// ReadError is the reason why Rules are not known: a role could not be read.
	ReadError error
	// Invalid is the reason why the request of any account is refused: by the API server, or in a bounded group.
	Invalid error
	// Notes explain rules of the object that grant less or more than they appear to.
	Notes []string
	// Later reports that it is not needed while this version is installed.
	Later bool
}
