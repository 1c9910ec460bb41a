// Package preflight reports, before the first write, all permissions that a plan needs and its account does not have:
//
//	NeedsOf -> Examine -> Confirm -> Summary, Manifests, Files
//
// A Need is a value with its cause: the requests that Remit will send, by object name, and the permissions that roles
// and bindings grant. Needs are first checked locally against RBAC. Because another authorizer may allow what RBAC
// does not, missing permissions are then confirmed by the API server. Callers with a client add the API server's
// answers to dry runs of the writes. A report is rendered as text, as RBAC manifests and as documents.
//
// The preflight explains and never permits: the API server decides on each write. What cannot be decided is Unknown
// and does not block a plan. The installplan controller and the CLI call this package.
package preflight
