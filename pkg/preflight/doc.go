// Package preflight reports, before the first write, all permissions that a plan needs and its account does not have:
//
//	NeedsOf -> Examine -> Confirm -> Summary, Manifests, Files
//
// A Need describes which permissions one action of a plan requires, and why: those for the requests that Remit will
// send, restricted to object names, and those that roles and bindings grant. Needs are first checked locally against
// RBAC. The API server is then asked about the missing permissions, because another authorizer may allow them. Callers
// with a client also add the API server's answers to dry runs of the writes. A report is rendered as text, as RBAC
// manifests and as documents.
//
// The preflight only explains what is missing; the API server decides on each write. Permissions that cannot be
// determined are Unknown and do not block a plan, except for what the installation's CRD account writes for the account: the
// conversions that ConversionNeed finds. The installplan controller and the CLI call this package.
package preflight
