// Package rbac reads RBAC objects from listers and computes which rules apply to a user in a scope, and which of the
// rules that an action requires are missing. The results are used only for explanations and never to authorize a write,
// because the API server decides on each write (security model, rule 1).
//
// The results are the same as those of Covers in component-helpers, the function behind the API server's own escalation
// check, but the time is proportional to the size of the rules. "make differential" compares the results with those
// of Kubernetes' own code.
package rbac
